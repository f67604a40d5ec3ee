package workermetrics

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func netDev(device string, in, out uint64) string {
	return fmt.Sprintf(`Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 7 7 0 0 0 0 0 0 7 7 0 0 0 0 0 0
%6s:%d 1 0 0 0 0 0 0 %d 1 0 0 0 0 0 0
`, device, in, out)
}

// lease-assignment-and-worker-metrics#52
func TestNetwork(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		name     string
		max      float64
		elapsed  time.Duration
		in, out  uint64 // after 5 MB and 5 MB
		percents [2]float64
	}{
		{"one second", 10, time.Second, 6 * mb, 7 * mb, [2]float64{10, 20}},
		{"half a second", 10, time.Second / 2, 6 * mb, 7 * mb, [2]float64{20, 40}},
		{"all there is", 1, time.Second, 6 * mb, 7 * mb, [2]float64{100, 100}},
		{"nothing", 10, time.Second, 5 * mb, 5 * mb, [2]float64{0, 0}},
		{"counters began anew", 10, time.Second, 1, 2, [2]float64{0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := files{procNetDev: netDev("eth0", 5*mb, 5*mb)}.host()
				in, err := NewNetworkIn(h, "", c.max)
				require.NoError(t, err)
				out, err := NewNetworkOut(h, "eth0", c.max)
				require.NoError(t, err)
				assert.Equal(t, [2]string{NetworkIn, NetworkOut}, [2]string{in.Name(), out.Name()})
				assert.Equal(t, [2]float64{}, [2]float64{captured(t, in), captured(t, out)}, "the first capture")
				time.Sleep(c.elapsed)
				h.write(procNetDev, netDev("eth0", c.in, c.out))
				assert.Equal(t, c.percents, [2]float64{captured(t, in), captured(t, out)})
				fails(t, in) // no time has passed
			})
		})
	}
	for name, text := range map[string]string{
		"no such interface": netDev("eth1", 1, 1), "too few counters": "\n\neth0: 1 2 3", "no number": "\n\neth0: x", "an interface in the heading": "eth0:1\n\n", "empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			m, err := NewNetworkIn(files{procNetDev: text}.host(), "", 10)
			require.NoError(t, err)
			if name == "too few counters" {
				m, err = NewNetworkOut(files{procNetDev: text}.host(), "", 10)
				require.NoError(t, err)
			}
			fails(t, m)
		})
	}
	t.Run("missing file", func(t *testing.T) {
		m, err := NewNetworkIn(files{}.host(), "", 10)
		require.NoError(t, err)
		fails(t, m)
	})
	for _, bandwidth := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		_, err := NewNetworkIn(Host{}, "", bandwidth)
		assert.Error(t, err, bandwidth)
		_, err = NewNetworkOut(Host{}, "", bandwidth)
		assert.Error(t, err, bandwidth)
	}
}

func FuzzParseNetDev(f *testing.F) {
	f.Add(netDev("eth0", 1, 2), "eth0")
	f.Add("a\nb\n:1", "")
	f.Fuzz(func(t *testing.T, text, device string) {
		for _, column := range []int{columnReceived, columnSent} {
			_, _ = parseNetDev(text, device, column)
		}
	})
}
