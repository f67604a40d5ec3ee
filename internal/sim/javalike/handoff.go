package javalike

import (
	"context"
	"maps"
	"slices"
	"time"
)

// handOff is a lease that its owner was asked to hand over.
type handOff struct {
	key, token string
	deadline   time.Time
	forced     bool
}

// asked has a lease's consumer finish. It is called at each renewal for as long as
// the hand-off is under way, and asks once.
func (w *Worker) asked(key, token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.consumers[token]
	switch {
	case c == nil, c.over():
		delete(w.handOffs, token)
	case w.handOffs[token] == nil:
		w.handOffs[token] = &handOff{key: key, token: token, deadline: time.Now().Add(w.HandOffTimeout)}
		c.ask()
	}
}

// transfer completes a hand-off: the lease is the next owner's alone.
func (w *Worker) transfer(ctx context.Context, l lease) error {
	if l.checkpointOwner != w.Name {
		return nil
	}
	_, done, err := w.update(ctx, w.wire.assign(l, l.owner))
	w.Tell("%s hands %s over to %s: %v, %v", w.Name, l.key, l.owner, done, err)
	return err
}

// checkHandOffs forces those over that take too long.
func (w *Worker) checkHandOffs(ctx context.Context) {
	w.mu.Lock()
	all := slices.Collect(maps.Values(w.handOffs))
	w.mu.Unlock()
	for _, o := range all {
		w.mu.Lock()
		c := w.consumers[o.token]
		gone := c == nil || c.over()
		w.mu.Unlock()
		l, token, ok := w.holding(o.key)
		switch {
		case gone, !ok, token != o.token:
			w.mu.Lock()
			delete(w.handOffs, o.token)
			w.mu.Unlock()
		case !o.forced && !time.Now().Before(o.deadline):
			o.forced = w.transfer(ctx, l) == nil // an error is tried again
		}
	}
}
