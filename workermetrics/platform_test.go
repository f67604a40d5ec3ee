package workermetrics

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// instance is EC2's metadata service: which token it gives, "" for none, and how
// it answers who asks for the identity with and without it.
type instance struct {
	token         string
	with, without int
}

func (i instance) Do(r *http.Request) (*http.Response, error) {
	const address = "http://169.254.169.254/latest/"
	switch {
	case r.Method == http.MethodPut && r.URL.String() == address+"api/token" && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") == "600":
		if i.token == "" {
			return answer(http.StatusForbidden, "")
		}
		return answer(http.StatusOK, i.token)
	case r.Method == http.MethodGet && r.URL.String() == address+"dynamic/instance-identity/document":
		switch got, ok := r.Header["X-Aws-Ec2-Metadata-Token"]; {
		case !ok:
			return answer(i.without, "{}")
		case got[0] == i.token:
			return answer(i.with, "{}")
		}
	}
	return answer(http.StatusBadRequest, "")
}

// lease-assignment-and-worker-metrics#51
func TestChoose(t *testing.T) {
	ec2 := instance{token: "t", with: 200, without: 401}
	v2 := files{kubernetesToken: "x", "sys/fs/cgroup/cgroup.controllers": "cpu", "proc/stat": "cpu"}
	const none = "<nil>"
	for _, c := range []struct {
		name             string
		all              files
		env              map[string]string
		http             Doer
		os               string
		platform, metric string
	}{
		{"ECS", v2, map[string]string{envECSv4: ecsBase, envECSv3: "x"}, ec2, "linux", "ECS", "*workermetrics.ecsCPU"},
		{"ECS with version 3 only", v2, map[string]string{envECSv3: "x"}, ec2, "linux", "ECS", none},
		{"ECS, a bad address", v2, map[string]string{envECSv4: "x"}, ec2, "linux", "ECS", none},
		{"ECS, not on Linux", v2, map[string]string{envECSv4: ecsBase}, ec2, "windows", "windows", none},
		{"Kubernetes, even on EC2", v2, nil, ec2, "linux", "EKS", "*workermetrics.cgroupCPU"},
		{"Kubernetes, v1 by its memory", files{kubernetesToken: "", "sys/fs/cgroup/memory/x": ""}, nil, ec2, "linux", "EKS", "*workermetrics.cgroupCPU"},
		{"Kubernetes, v1 by its CPU", files{kubernetesToken: "", "sys/fs/cgroup/cpu/x": ""}, nil, ec2, "linux", "EKS", "*workermetrics.cgroupCPU"},
		{"Kubernetes without control groups", files{kubernetesToken: ""}, nil, ec2, "linux", "EKS", none},
		{"Kubernetes, not on Linux", v2, nil, ec2, "darwin", "darwin", none},
		{"EC2", files{"proc/stat": ""}, nil, ec2, "linux", "EC2", "*workermetrics.linuxCPU"},
		{"EC2 without a token", files{"proc/stat": ""}, nil, instance{without: 200}, "linux", "EC2", "*workermetrics.linuxCPU"},
		{"EC2 without /proc", files{}, nil, ec2, "linux", "EC2", none},
		{"EC2, not on Linux", files{"proc/stat": ""}, nil, ec2, "freebsd", "freebsd", none},
		{"refused", files{"proc/stat": ""}, nil, instance{token: "t", with: 403}, "linux", "", none},
		{"refused without a token", files{"proc/stat": ""}, nil, instance{without: 403}, "linux", "", none},
		{"no such service", files{"proc/stat": ""}, nil, doer(noNetwork), "linux", "", none},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := c.all.host()
			h.Getenv = func(name string) string { return c.env[name] }
			h.HTTP, h.OS = c.http, c.os
			platform, m, err := h.choose(t.Context())
			assert.Equal(t, c.platform, platform)
			if c.metric == none {
				assert.Nil(t, m)
				assert.Error(t, err, "says why")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.metric, typeName(m))
			assert.Equal(t, CPU, m.Name())
			assert.Equal(t, 100, m.OperatingRange())
		})
	}
	t.Run("v2 and v1", func(t *testing.T) {
		_, m, _ := files{kubernetesToken: "", "sys/fs/cgroup/cgroup.controllers": "", "sys/fs/cgroup/cpu/x": "", v2Stat: "usage_usec 1", v2Max: "1 1"}.host().choose(t.Context())
		captured(t, m)
		_, m, _ = files{kubernetesToken: "", "sys/fs/cgroup/cpu/x": "", v1Usage: "1", v1Quota: "1", v1Period: "1"}.host().choose(t.Context())
		captured(t, m)
	})
}

// Do better 23.
func TestProbesAreShort(t *testing.T) {
	silent := doer(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	h := files{"proc/stat": ""}.host()
	t.Run("nobody answers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			h.HTTP = silent
			_, _, err := h.choose(t.Context())
			assert.ErrorIs(t, err, errNoPlatform)
			assert.Equal(t, time.Second, time.Since(start))
		})
	})
	t.Run("the token is too many hops away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			h.HTTP = doer(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPut {
					return silent(r)
				}
				return instance{without: 200}.Do(r)
			})
			platform, _, err := h.choose(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "EC2", platform)
			assert.Equal(t, time.Second/2, time.Since(start))
		})
	})
	t.Run("the worker stops", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			h.HTTP = silent
			_, _, err := h.choose(ctx)
			assert.Error(t, err)
			assert.Equal(t, time.Millisecond, time.Since(start))
		})
	})
}
