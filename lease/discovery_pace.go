package lease

import "time"

const (
	// discoverySlow is the ordinary time between two discoveries,
	// discoveryQuick that of a worker's first minute without a lease.
	discoverySlow    = 2 * time.Second
	discoveryQuick   = time.Second
	discoveryHurried = time.Minute

	// discoveryUnitsPerHour is what the queries of one worker may consume: part
	// of the 2,000 read units an hour that a worker may cost besides its leases.
	discoveryUnitsPerHour = 1200
)

// pace says how often a worker looks for leases that were assigned to it.
type pace struct {
	failover, epsilon time.Duration
	// assignment is the interval of the leader's assignments if it was set
	// explicitly, else 0.
	assignment time.Duration
	// provisioned: the table's read units are rationed.
	provisioned bool
}

// interval returns the time to the next discovery, when the last one consumed
// units read units and the worker has had no lease for idle; idle is negative
// if it has one.
//
//	assignment  table        leases                   interval
//	set         any          any                      assignment / 2 - epsilon (KCL's)
//	unset       provisioned  any                      failover - epsilon (KCL's default)
//	unset       on demand    none, less than 1 min    1 s
//	unset       on demand    any other                2 s, longer if a query costs much
//
// but in the last two rows never longer than KCL's.
func (p pace) interval(units float64, idle time.Duration) time.Duration {
	kcl := max(p.failover-p.epsilon, time.Millisecond)
	switch {
	case p.assignment > 0:
		return max(p.assignment/2-p.epsilon, time.Millisecond)
	case p.provisioned:
		return kcl
	case idle >= 0 && idle < discoveryHurried:
		return min(discoveryQuick, kcl)
	}
	affordable := time.Duration(units / discoveryUnitsPerHour * float64(time.Hour))
	return min(max(discoverySlow, affordable), kcl)
}

// queryUnits estimates what a query of the owner index consumed that returned
// these keys: half a unit for each 4 KB of entries, which hold the two keys.
func queryUnits(keys []string, worker string) float64 {
	const entryNames = len(attrKey) + len(attrOwner)
	bytes := len(keys) * (entryNames + len(worker))
	for _, k := range keys {
		bytes += len(k)
	}
	return float64(max(1, (bytes+4095)/4096)) / 2
}
