package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/kcltest"
)

// occurrence is a kind of event.
type occurrence struct {
	what           string
	stormy, gentle int // how often, against the others
	faults         func(drawing) []kcltest.Fault
	// do lets it happen and tells what it did; nothing if that was nothing.
	do func(p *play, e event, d *rand.Rand) string
}

func (o occurrence) weight(p profile) int {
	if p == gentle {
		return o.gentle
	}
	return o.stormy
}

// occurrences are all kinds of events. The last two come once in their profiles.
var occurrences = []occurrence{
	{what: "split", stormy: 13, gentle: 14, do: func(p *play, _ event, d *rand.Rand) string { return p.world.split(d) }},
	{what: "merge", stormy: 11, gentle: 12, do: func(p *play, _ event, d *rand.Rand) string { return p.world.merge(d) }},
	{what: "rescale", stormy: 3, gentle: 3, do: func(p *play, _ event, d *rand.Rand) string { return p.world.rescale(d) }},
	{what: "start", stormy: 16, gentle: 30, do: func(p *play, _ event, _ *rand.Rand) string {
		if len(p.up()) >= p.most {
			return ""
		}
		return "another worker: " + p.start().id
	}},
	{what: "stop", stormy: 5, gentle: 30, do: stopOne},
	{what: "hasty stop", stormy: 3, do: stopInHaste},
	{what: "kill", stormy: 9, do: func(p *play, _ event, d *rand.Rand) string {
		x := p.any(d, 0)
		if x == nil {
			return ""
		}
		x.kill()
		return "kill " + x.id
	}},
	{what: "freeze", stormy: 9, do: func(p *play, e event, d *rand.Rand) string {
		x := p.any(d, 0)
		if x == nil {
			return ""
		}
		x.freeze(e.lasts)
		return fmt.Sprintf("freeze %s for %s", x.id, e.lasts)
	}},
	{what: "cut off", stormy: 12, faults: drawing.cutOff, do: func(p *play, e event, d *rand.Rand) string {
		x := p.any(d, 0)
		if x == nil {
			return ""
		}
		f := e.faults[0]
		f.Clients = []string{x.id}
		p.inject([]kcltest.Fault{f}, e.lasts)
		return fmt.Sprintf("cut off for %s: %s", e.lasts, describe(f))
	}},
	{what: "fade", stormy: 8, faults: drawing.fade, do: fade},
	{what: "lock out", stormy: 6, do: lockOut},
	{what: "storm", stormy: 12, faults: drawing.storm, do: func(p *play, e event, _ *rand.Rand) string {
		p.inject(e.faults, e.lasts)
		return fmt.Sprintf("storm for %s%s", e.lasts, list(e.faults))
	}},
	{what: "lag", stormy: 8, gentle: 9, do: func(p *play, _ event, d *rand.Rand) string {
		stale, index := drawing{d}.time(0, 3*time.Second), drawing{d}.time(0, 10*time.Second)
		if p.profile == gentle { // or new leaders give leases to who leaves, and take them from who has yet to find them
			stale, index = stale/10, index/10
		}
		p.aws.SetLag(stale, index)
		return fmt.Sprintf("reads are stale by %s, the index by %s", stale, index)
	}},
	{what: "roll", stormy: 2, gentle: 2, do: roll},
	{what: "unlock", stormy: 2, do: unlock},
	{what: "outage", do: goDown},
	{what: "rebirth", do: giveBirth},
}

// any picks a process that is up, if there are more than so many.
func (p *play) any(d *rand.Rand, more int) *process {
	up := p.up()
	if len(up) <= more {
		return nil
	}
	return up[d.IntN(len(up))]
}

func stopOne(p *play, _ event, d *rand.Rand) string {
	more := 0
	if p.profile == gentle {
		more = 1 // or leases wait for somebody to come
	}
	x := p.any(d, more)
	if x == nil {
		return ""
	}
	x.stopped.Store(true)
	x.cancel()
	return "stop " + x.id
}

func stopInHaste(p *play, e event, d *rand.Rand) string {
	x := p.any(d, 0)
	if x == nil {
		return ""
	}
	x.stopped.Store(true)
	x.hurt()
	patience := e.lasts / 20
	p.loose.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		_ = x.Shutdown(ctx)
	})
	return fmt.Sprintf("stop %s within %s", x.id, patience)
}

// fade lets a worker's writes to DynamoDB succeed without its knowing, and then not
// at all, while it goes on reading: what it makes of its terms must be true.
func fade(p *play, e event, d *rand.Rand) string {
	x := p.any(d, 0)
	if x == nil {
		return ""
	}
	faults := slices.Clone(e.faults)
	for i := range faults {
		faults[i].Clients = []string{x.id}
	}
	first, last := faults[:len(faults)-1], faults[len(faults)-1:]
	p.inject(first, e.lasts/16)
	time.Sleep(e.lasts / 16)
	p.inject(last, e.lasts)
	return fmt.Sprintf("%s fades for %s%s, then for %s%s", x.id, e.lasts/16, list(first), e.lasts, list(last))
}

// lockOut keeps a leader, or whoever is picked if there is none, from its lock, and
// from nothing else: its other calls must end with its term.
func lockOut(p *play, e event, d *rand.Rand) string {
	up := p.up()
	if len(up) == 0 {
		return ""
	}
	x := up[d.IntN(len(up))]
	if i := slices.IndexFunc(up, func(x *process) bool { return x.Status().Leading }); i >= 0 {
		x = up[i]
	}
	now := time.Now()
	x.lockOut.Store(&lockedOut{now.Add(e.lasts / 16), now.Add(e.lasts)})
	return fmt.Sprintf("%s gets no answers about the lock for %s, and cannot reach it for %s", x.id, e.lasts/16, e.lasts)
}

// roll replaces all workers by such with other settings, one after another. A new
// one starts before or after the old one has stopped.
func roll(p *play, e event, d *rand.Rand) string {
	p.generation = 1 - p.generation
	p.tell("roll to settings %d", p.generation)
	surge := d.IntN(2) == 0 || p.profile == gentle
	for _, x := range p.up() {
		if surge {
			p.start()
		}
		x.stopped.Store(true)
		x.cancel()
		time.Sleep(e.lasts / 10)
		if !surge {
			p.start()
		}
		p.reap()
	}
	return "rolled"
}

// unlock deletes the leader's lock, as an operator may.
func unlock(p *play, _ event, _ *rand.Rand) string {
	p.book.unlock()
	_, err := p.book.client.DeleteItem(p.t.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String(simApp), Key: map[string]types.AttributeValue{"leaseKey": &types.AttributeValueMemberS{Value: leaderKey}},
	})
	if err != nil {
		return "" // no table yet
	}
	return "the leader's lock is deleted"
}

// goDown lets no worker run for longer than records are kept.
func goDown(p *play, _ event, d *rand.Rand) string {
	for _, x := range p.up() {
		if d.IntN(2) == 0 {
			x.kill()
			continue
		}
		x.stopped.Store(true)
		x.cancel()
	}
	p.vanished.Store(true)
	away := retention + drawing{d}.time(-30*time.Minute, 2*time.Hour)
	p.tell("nobody runs for %s", away)
	for _, x := range p.live {
		x.unfreeze()
		<-x.done
	}
	p.reap()
	p.world.split(d)
	time.Sleep(time.Minute)
	p.world.pause(true)
	time.Sleep(away)
	p.world.pause(false)
	p.back = time.Now()
	for range p.most {
		p.start()
	}
	return "workers run again"
}

// giveBirth deletes the stream and, once nothing reminds of it, makes one of the
// same name.
func giveBirth(p *play, e event, _ *rand.Rand) string {
	p.world.pause(true)
	p.orphaned.Store(true)
	p.vanished.Store(true)
	p.world.remove()
	p.tell("the stream is deleted")
	time.Sleep(e.lasts)
	if !p.wait(soundTable, 10*time.Minute, "the leases of the deleted stream to be gone", func() bool {
		p.reap()
		for _, x := range p.up() {
			if x.parked.Load() { // a shard of it does not come to its end before the worker stops
				x.stopped.Store(true)
				x.cancel()
			}
		}
		return len(p.table()) == 0 || len(p.up()) == 0
	}) {
		return ""
	}
	for _, l := range p.table() { // nobody is left to delete them, and none can start: an operator must
		require.NoError(p.t, p.book.eyes.Delete(p.t.Context(), l.Key))
	}
	p.book.turn()
	p.world.create(p.shards)
	require.NotEmpty(p.t, p.aws.Shards(simStream))
	p.orphaned.Store(false)
	p.world.pause(false)
	return "there is a stream of its name"
}
