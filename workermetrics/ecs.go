package workermetrics

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
)

// The addresses of a task's metadata, given to each of its containers. Version 3
// has no CPU limits.
const (
	envECSv3 = "ECS_CONTAINER_METADATA_URI"
	envECSv4 = "ECS_CONTAINER_METADATA_URI_V4"
)

// minShares is the weight that ECS gives a container without one.
const minShares = 2

type ecsCPU struct {
	kind
	host  Host
	base  string
	cores float64 // what this container may use; 0 until known
}

// NewECSCPU returns the metric [CPU] of a container of an ECS task: the processor
// time used, as a share of what its weight among the task's containers gives it
// of the task's limit, or of the machine if the task has none. It asks the task
// metadata endpoint of version 4, whose address ECS puts into the environment.
func NewECSCPU(h Host) (Metric, error) {
	h = h.withDefaults()
	base := h.Getenv(envECSv4)
	if u, err := url.Parse(base); err != nil || u.Host == "" {
		return nil, fmt.Errorf("%s is %q, must be a URL", envECSv4, base)
	}
	return &ecsCPU{kind: CPU, host: h, base: base}, nil
}

func (m *ecsCPU) Capture(ctx context.Context) (float64, error) {
	var stats ecsStats
	if err := m.get(ctx, "/stats", &stats); err != nil {
		return 0, err
	}
	if stats.Before.total() == 0 && stats.Before.System == 0 {
		return 0, nil // the container's first second
	}
	if m.cores == 0 {
		if err := m.learnLimit(ctx, stats.Now.Online); err != nil {
			return 0, err
		}
	}
	return stats.percentOf(m.cores), nil
}

// learnLimit keeps nothing unless it has learned all of it.
func (m *ecsCPU) learnLimit(ctx context.Context, online float64) error {
	var task ecsTask
	if err := m.get(ctx, "/task", &task); err != nil {
		return err
	}
	var self ecsContainer
	if err := m.get(ctx, "", &self); err != nil {
		return err
	}
	cores, err := task.cores(self.DockerID, online)
	if err != nil {
		return err
	}
	m.cores = cores
	return nil
}

func (m *ecsCPU) get(ctx context.Context, path string, into any) error {
	b, err := m.host.ask(ctx, http.MethodGet, m.base+path, "", "")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("answer of %s: %w", m.base+path, err)
	}
	return nil
}

// ecsStats is what Docker tells of a container: two readings of its counters.
type ecsStats struct {
	Now    ecsReading `json:"cpu_stats"`
	Before ecsReading `json:"precpu_stats"`
}

type ecsReading struct {
	Usage struct {
		Total uint64 `json:"total_usage"`
	} `json:"cpu_usage"`
	System uint64  `json:"system_cpu_usage"`
	Online float64 `json:"online_cpus"`
}

func (r ecsReading) total() uint64 { return r.Usage.Total }

// percentOf returns what the container used between the readings of the
// processors that it may use. Docker's counter for the machine advances by the
// time of all processors together.
func (s ecsStats) percentOf(cores float64) float64 {
	total, system := s.Now.total()-s.Before.total(), s.Now.System-s.Before.System
	switch {
	case s.Now.total() < s.Before.total(), s.Now.System < s.Before.System:
		return 0 // the counters began anew
	case system == 0:
		return 100 // as in KCL
	}
	return min(100, float64(total)/float64(system)*s.Now.Online/cores*100)
}

type ecsTask struct {
	Limits     ecsLimits
	Containers []ecsContainer
}

type ecsContainer struct {
	DockerID string `json:"DockerId"`
	Limits   ecsLimits
}

// ecsLimits are in processors for a task, and in weights for its containers.
type ecsLimits struct {
	CPU float64
}

// cores returns how many processors a container of the task may use, on a
// machine that has online of them.
func (t ecsTask) cores(dockerID string, online float64) (float64, error) {
	share, sum := float64(minShares), 0.0
	for _, c := range t.Containers {
		sum += c.Limits.CPU
		if c.DockerID == dockerID {
			share = c.Limits.CPU
		}
	}
	cores := share / sum * cmp.Or(t.Limits.CPU, online)
	if !(sum > 0 && cores > 0) {
		return 0, errors.New("task metadata without CPU limits")
	}
	return cores, nil
}
