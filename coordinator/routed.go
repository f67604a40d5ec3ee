package coordinator

import (
	"context"
	"fmt"
	"maps"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/entity"
)

// WritesLeaseTable reports whether a worker that started with the one status and
// has the other now writes to the lease table what is no lease. Until the
// single-table migration is complete a worker keeps the table that it started
// with; from then on nobody reads the legacy one, so everybody writes to the
// lease table at once. (Java workers do not before they are started again.)
func WritesLeaseTable(started, now TableStatus) bool {
	return now == TableStatusComplete || started == TableStatusComplete || started == TableStatusPending
}

// RoutedConfig says between which tables a [Routed] chooses, and by what.
type RoutedConfig struct {
	// Lease is the store of the lease table; Legacy that of the legacy table, nil
	// if there is none.
	Lease, Legacy *Store
	// Started is the status that the worker started with, Status the one that it
	// has now.
	Started TableStatus
	Status  func() TableStatus
}

// Routed is the coordinator state while it moves from its own table into the
// lease table.
//
//	status now  get                      list                create          update           delete
//	COMPLETE    lease                    lease               lease           lease            lease
//	other       legacy, lease if absent  both, legacy first  by [WritesLeaseTable],  where get finds it  both
//	                                                         if in neither
//
// Workers of both deployments run side by side, and the leader moves items while
// they do: so an item may be in either table, and where it is in both the legacy
// one counts. KCL looks only at the worker's own table for all changes.
type Routed struct{ cfg RoutedConfig }

// NewRouted makes no call. It fails if the worker has not decided how it starts.
func NewRouted(c RoutedConfig) (*Routed, error) {
	if !c.Started.known() {
		return nil, fmt.Errorf("%w: coordinator state is used before the worker knows which table has it (%q)", kcl.ErrInvalidState, c.Started)
	}
	return &Routed{c}, nil
}

// legacy returns the legacy table's store while it is in use.
func (r *Routed) legacy() (*Store, bool) {
	return r.cfg.Legacy, r.cfg.Legacy != nil && r.cfg.Status() != TableStatusComplete
}

// Get reads an item, strongly consistent. found is false if neither table has
// it.
func (r *Routed) Get(ctx context.Context, key string) (it Item, found bool, err error) {
	if legacy, ok := r.legacy(); ok {
		if it, found, err = legacy.Get(ctx, key); err != nil || found {
			return it, found, err
		}
	}
	return r.cfg.Lease.Get(ctx, key)
}

// List returns the items of one kind, as [Store.List] does. Of an item that is in
// both tables it returns the legacy one.
func (r *Routed) List(ctx context.Context, t entity.Type) (items []Item, err error) {
	if legacy, ok := r.legacy(); ok {
		if items, err = legacy.List(ctx, t); err != nil {
			return nil, err
		}
	}
	seen := map[string]bool{}
	for _, it := range items {
		seen[it.Key] = true
	}
	there, err := r.cfg.Lease.List(ctx, t)
	if err != nil {
		return nil, err
	}
	for _, it := range there {
		if !seen[it.Key] {
			items = append(items, it)
		}
	}
	return items, nil
}

// Create puts an item if neither table has one with its key.
func (r *Routed) Create(ctx context.Context, it Item) (created bool, err error) {
	legacy, ok := r.legacy()
	if !ok {
		if !WritesLeaseTable(r.cfg.Started, r.cfg.Status()) {
			return false, fmt.Errorf("create %s: %w: the legacy table is not there", it.Key, kcl.ErrInvalidState)
		}
		return r.cfg.Lease.Create(ctx, it)
	}
	to, other := legacy, r.cfg.Lease
	if WritesLeaseTable(r.cfg.Started, r.cfg.Status()) {
		to, other = other, to
	}
	old, found, err := other.Get(ctx, it.Key)
	if err != nil {
		return false, err
	}
	if found {
		return old.Type == it.Type && holds(old.Attributes, it.Attributes) && len(old.Attributes) == len(it.Attributes), nil
	}
	return to.Create(ctx, it)
}

// Update sets attributes of an item, in the table that has it, if they are still
// as expected; see [Store.Update].
func (r *Routed) Update(ctx context.Context, key string, set, expect map[string]types.AttributeValue) (updated bool, err error) {
	if legacy, ok := r.legacy(); ok {
		if updated, err = legacy.Update(ctx, key, set, expect); err != nil || updated {
			return updated, err
		}
		if _, found, err := legacy.Get(ctx, key); err != nil || found {
			return false, err
		}
	}
	return r.cfg.Lease.Update(ctx, key, set, expect)
}

// Delete removes an item from both tables. Its absence is no error.
func (r *Routed) Delete(ctx context.Context, key string) error {
	if legacy, ok := r.legacy(); ok {
		if err := legacy.Delete(ctx, key); err != nil {
			return err
		}
	}
	return r.cfg.Lease.Delete(ctx, key)
}

// ClientVersion reads Migration3.0; see [Store.ClientVersion].
func (r *Routed) ClientVersion(ctx context.Context) (m ClientVersionState, found bool, err error) {
	if legacy, ok := r.legacy(); ok {
		if m, found, err = legacy.ClientVersion(ctx); err != nil || found {
			return m, found, err
		}
	}
	return r.cfg.Lease.ClientVersion(ctx)
}

// CreateClientVersion stores m if there is no Migration3.0 yet in either table.
func (r *Routed) CreateClientVersion(ctx context.Context, m ClientVersionState) (created bool, err error) {
	return r.Create(ctx, m.Item())
}

// UpdateClientVersion stores m; see [Store.UpdateClientVersion].
func (r *Routed) UpdateClientVersion(ctx context.Context, m ClientVersionState, from ClientVersion, expect map[string]types.AttributeValue) (updated bool, err error) {
	key, _, attribute := from.item()
	all := maps.Clone(expect)
	if all == nil {
		all = map[string]types.AttributeValue{}
	}
	all[attribute] = str(string(from))
	return r.Update(ctx, key, m.values(), all)
}
