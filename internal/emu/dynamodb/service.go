package dynamodb

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// Service is an Amazon DynamoDB. It holds the tables of any number of accounts
// and regions, each a world of its own. It is safe for concurrent use.
type Service struct {
	conflict     func(Touch) bool
	secondCreate SecondCreate
	timing       Timing
	pageBytes    int

	mu       sync.Mutex // guards all below and what it leads to; held for one call's run
	lag      Lag
	rnd      *rand.Rand
	accounts map[scope]*account
}

// scope is what table names are unique in.
type scope struct{ account, region string }

type account struct {
	tables map[string]*table
	tokens tokens
}

// New returns a service without tables.
func New(cfg Config) *Service {
	s := &Service{
		conflict:     cfg.Conflict,
		secondCreate: cfg.SecondCreate,
		timing:       DefaultTiming(),
		pageBytes:    cfg.PageBytes,
		lag:          cfg.Lag,
		rnd:          rand.New(rand.NewPCG(cfg.Seed, 0)),
		accounts:     map[scope]*account{},
	}
	if cfg.Timing != nil {
		s.timing = *cfg.Timing
	}
	if s.timing.Statistics <= 0 {
		s.timing.Statistics = defaultStatistics
	}
	if s.pageBytes <= 0 {
		s.pageBytes = defaultPageBytes
	}
	return s
}

// SetLag changes the lag of reads and of index changes to come. Readers can only
// be as late as writes were kept for: a longer Lag.Read has its full effect once
// that time has passed.
func (s *Service) SetLag(lag Lag) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = lag
}

// request is a decoded call.
type request interface {
	// tables returns the tables that the call names, as sent: names or ARNs.
	tables() []string
	// compile does all the checks that need no table, and returns what is left
	// to do at one instant.
	compile() (plan, error)
}

// plan is what is left to do of a call when it has been checked by itself.
type plan struct {
	// run is called with the lock held. Its answer is encoded without it.
	run func(*view) (any, error)
	// touches are the items that Config.Conflict is asked about.
	touches []Touch
}

// emptyBody is an answer without even a {}.
type emptyBody struct{}

// appender is an answer that encodes itself, for speed: encoding/json would read
// its items through once more.
type appender interface {
	appendJSON(dst []byte) []byte
}

// view is the service as one call sees it, at one instant, under the lock.
type view struct {
	*Service
	*account
	who       wire.Caller
	now       time.Time
	conflicts []bool // by touch; nil when none was asked about
}

var operations = map[string]operation{
	"BatchGetItem":              of[batchGetItem](),
	"BatchWriteItem":            of[batchWriteItem](),
	"CreateTable":               of[createTable](),
	"DeleteItem":                of[deleteItem](),
	"DeleteTable":               of[deleteTable](),
	"DescribeContinuousBackups": of[describeContinuousBackups](),
	"DescribeTable":             of[describeTable](),
	"GetItem":                   of[getItem](),
	"ListTables":                of[listTables](),
	"ListTagsOfResource":        of[listTagsOfResource](),
	"PutItem":                   of[putItem](),
	"Query":                     of[query](),
	"Scan":                      of[scan](),
	"TagResource":               of[tagResource](),
	"TransactGetItems":          of[transactGetItems](),
	"TransactWriteItems":        of[transactWriteItems](),
	"UntagResource":             of[untagResource](),
	"UpdateContinuousBackups":   of[updateContinuousBackups](),
	"UpdateItem":                of[updateItem](),
	"UpdateTable":               of[updateTable](),
}

// Prepare implements [wire.Service].
func (s *Service) Prepare(call *wire.Call) wire.Prepared {
	op, ok := operations[call.Operation]
	if !ok {
		return wire.Prepared{Run: func() wire.Answer { return unknownOperation().Answer(call.Codec) }}
	}
	req, err := op.decode(call.Body)
	if err != nil {
		return wire.Prepared{Run: func() wire.Answer { return decodeError(err).Answer(call.Codec) }}
	}
	var names []string
	for _, name := range req.tables() {
		if name := tableName(&name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var index string
	if r, ok := req.(interface{ indexName() string }); ok {
		index = r.indexName()
	}
	return wire.Prepared{
		Resources: names,
		Index:     index,
		Run: func() wire.Answer {
			out, err := s.run(call, req)
			if err != nil {
				return wireError(err).Answer(call.Codec)
			}
			switch out := out.(type) {
			case emptyBody:
				return wire.OK(call.Codec, nil)
			case appender:
				return wire.Answer{Status: http.StatusOK, ContentType: call.Codec.ContentType(), Body: out.appendJSON(nil)}
			}
			return wire.OK(call.Codec, out)
		},
	}
}

func (s *Service) run(call *wire.Call, req request) (any, error) {
	p, err := req.compile()
	if err != nil {
		return nil, err
	}
	var conflicts []bool
	if s.conflict != nil {
		for _, touch := range p.touches {
			touch.Client, touch.Operation = call.Client, call.Operation
			conflicts = append(conflicts, s.conflict(touch))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.view(call.Caller)
	v.conflicts = conflicts
	return p.run(v)
}

// view returns the present state as the caller sees it. The lock is held.
func (s *Service) view(who wire.Caller) *view {
	in := scope{who.Account, who.Region}
	a := s.accounts[in]
	if a == nil {
		a = &account{tables: map[string]*table{}}
		s.accounts[in] = a
	}
	return &view{Service: s, account: a, who: who, now: time.Now()}
}

// find returns the table with that name or ARN as it is now, or nil.
func (v *view) find(nameOrARN string) *table {
	name, own := resolve(v.who, nameOrARN)
	t := v.account.tables[name]
	if t == nil || !own {
		return nil
	}
	if due(t.life.gone, v.now) {
		delete(v.account.tables, name)
		return nil
	}
	t.settle(v.now, v.timing.Statistics)
	return t
}

// dataTable returns the table for a call on items: one that exists and is no
// longer being created. While it is being deleted its items can still be used.
func (v *view) dataTable(nameOrARN string) (*table, error) {
	t := v.find(nameOrARN)
	if t == nil || t.status(v.now) == creating {
		return nil, errNoTable
	}
	return t, nil
}

// controlTable returns the table for a call on the table itself.
func (v *view) controlTable(nameOrARN string) (*table, error) {
	t := v.find(nameOrARN)
	if t == nil {
		return nil, errNoNamedTable(tableName(&nameOrARN))
	}
	return t, nil
}

// inConflict reports whether the call's i-th touched item is being written by
// another transaction.
func (v *view) inConflict(i int, t *table, place string) bool {
	if i < len(v.conflicts) && v.conflicts[i] {
		return true
	}
	_, held := t.held[place] // settled: what is over is gone
	return held
}

// readAt returns the instant whose state a read sees.
func (v *view) readAt(consistent bool) time.Time {
	if consistent {
		return v.now
	}
	return v.now.Add(-v.upTo(v.lag.Read))
}

func (v *view) drawIndex() time.Duration { return v.upTo(v.lag.Index) }

// upTo returns a random time from 0 to most.
func (v *view) upTo(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	return time.Duration(v.rnd.Int64N(int64(most) + 1))
}

// newID returns a table id: a version 4 UUID, out of the seed.
func (v *view) newID() string {
	a, b := v.rnd.Uint64(), v.rnd.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000, b&0xffffffffffff)
}
