package workermetrics

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	// probeTimeout bounds the search for EC2's metadata service. Half of it is
	// for the token: a container too many hops away never gets an answer to that,
	// and yet may get the rest.
	probeTimeout = time.Second

	ec2Token    = "http://169.254.169.254/latest/api/token"
	ec2Document = "http://169.254.169.254/latest/dynamic/instance-identity/document"

	kubernetesToken = "var/run/secrets/kubernetes.io/serviceaccount/token"
)

var errNoPlatform = errors.New("neither ECS, Kubernetes nor EC2")

// choose returns the metric for the platform that the worker runs on. The first
// platform that fits decides, even if no metric can then be had:
//
//	platform                       known by                     metric
//	any but Linux                                               none
//	ECS                            environment                  the task's metadata, version 4
//	EKS, any other Kubernetes      service account's token      cgroup v2, else v1, else none
//	EC2                            metadata service             /proc/stat, else none
//	else                                                        none
//
// Only the look for EC2 needs the network; it takes a second at most.
func (h Host) choose(ctx context.Context) (platform string, m Metric, err error) {
	h = h.withDefaults()
	switch {
	case h.OS != "linux":
		return h.OS, nil, errors.New("no metric for this operating system")
	case h.Getenv(envECSv3) != "" || h.Getenv(envECSv4) != "":
		m, err = NewECSCPU(h)
		return "ECS", m, err
	case h.exists(kubernetesToken):
		m, err = h.chooseCgroup()
		return "EKS", m, err
	case !h.isEC2(ctx):
		return "", nil, errNoPlatform
	case !h.exists("proc"):
		return "EC2", nil, errors.New("no /proc")
	default:
		return "EC2", NewLinuxCPU(h), nil
	}
}

func (h Host) chooseCgroup() (Metric, error) {
	switch {
	case h.exists(cgroupRoot + "cgroup.controllers"):
		return NewCgroupV2CPU(h), nil
	case h.exists(cgroupRoot + "memory"), h.exists(cgroupRoot + "cpu"):
		return NewCgroupV1CPU(h), nil
	default:
		return nil, fmt.Errorf("no control group in /%s", cgroupRoot)
	}
}

// isEC2 asks the instance for its identity, with a token if one can be had.
func (h Host) isEC2(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	asking, cancel := context.WithTimeout(ctx, probeTimeout/2)
	defer cancel()
	header := ""
	token, err := h.ask(asking, http.MethodPut, ec2Token, "X-aws-ec2-metadata-token-ttl-seconds", "600")
	if err == nil {
		header = "X-aws-ec2-metadata-token"
	}
	_, err = h.ask(ctx, http.MethodGet, ec2Document, header, string(token))
	return err == nil
}
