package dynamodb

import "github.com/go-kcl/kcl/internal/emu/expr"

// maxSegments is the largest TotalSegments.
const maxSegments = 1_000_000

// scan is Scan.
type scan struct {
	readOptions
	expr.Request
	Segment       *int
	TotalSegments *int
}

func (r *scan) compile() (plan, error) {
	var c constraints
	want := r.constrain(&c)
	c.oneOf(r.ConditionalOperator, "conditionalOperator", "OR", "AND")
	c.between(r.Segment, "segment", 0, maxSegments-1)
	c.between(r.TotalSegments, "totalSegments", 1, maxSegments)
	if err := c.err(); err != nil {
		return plan{}, err
	}
	if err := r.CheckForms(expr.OpScan); err != nil {
		return plan{}, err
	}
	if err := r.ExclusiveStartKey.Check(); err != nil {
		return plan{}, err
	}
	if err := r.checkSegment(); err != nil {
		return plan{}, err
	}
	parsed, err := r.Parse(expr.OpScan)
	if err != nil {
		return plan{}, err
	}
	if err := r.checkSelect(parsed.Projection != nil); err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) { return r.run(v, parsed, want) }}, nil
}

func (r *scan) checkSegment() error {
	switch {
	case r.Segment == nil && r.TotalSegments == nil:
	case r.TotalSegments == nil:
		return invalidf("The TotalSegments parameter is required but was not present in the request when Segment parameter is present")
	case r.Segment == nil:
		return invalidf("The Segment parameter is required but was not present in the request when parameter TotalSegments is present")
	case *r.Segment >= *r.TotalSegments:
		return invalidf("The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: %d is not less than TotalSegments: %d", *r.Segment, *r.TotalSegments)
	}
	return nil
}

func (r *scan) run(v *view, parsed expr.Parsed, want detail) (any, error) {
	s, err := r.source(v)
	if err != nil {
		return nil, err
	}
	if err := r.checkProjected(s, parsed); err != nil {
		return nil, err
	}
	segment, total := 0, 1
	if r.TotalSegments != nil {
		segment, total = *r.Segment, *r.TotalSegments
	}
	from := segmentStart(segment, total)
	if r.ExclusiveStartKey != nil {
		place, err := s.find(r.ExclusiveStartKey)
		if err != nil {
			return nil, err
		}
		if segmentOf(hashOf(place), total) != segment {
			return nil, invalidf("The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d", total, segment)
		}
		from = after(place)
	}
	first := uint64(0)
	if from != "" {
		first = hashOf(from)
	}
	entries := s.ascend(from)
	if segment+1 < total {
		end := segmentStart(segment+1, total)
		entries = until(entries, func(e entry) bool { return e.place >= end })
	}
	how := r.cut(v, parsed)
	p := how.take(entries)
	b := bill{want: want}
	r.charge(&b, max(readUnits(p.bytes, readKind(r.ConsistentRead)), r.least(s, p, first, segment, total)))
	return p.answer(s, how, b), nil
}

// least is what a page costs at least: on demand, one read for each storage
// partition that it looked into, from the hash where it began to its last
// entry's, or to the segment's end.
func (r *scan) least(s source, p page, first uint64, segment, total int) float64 {
	if !s.table.billing.onDemand {
		return 0
	}
	last := ^uint64(0)
	if p.last != nil {
		last = hashOf(p.place)
	} else if segment+1 < total {
		last = hashOf(segmentStart(segment+1, total)) - 1
	}
	seen := segmentOf(last, scanPartitions) - segmentOf(first, scanPartitions) + 1
	return float64(seen*readKind(r.ConsistentRead)) / 2
}
