package workermetrics

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl"
	"github.com/go-kcl/kcl/internal/entity"
)

// maxPages ends a scan whose pages never end: 10 GB at 1 MB a page.
const maxPages = 10_000

// Found is what a read found.
type Found struct {
	Records []Record
	// Unreadable are the records that were skipped, for the caller to tell of.
	Unreadable []Unreadable
	// ReadUnits is the read capacity that the read consumed.
	ReadUnits float64
}

// Unreadable is a record that is of no use.
type Unreadable struct {
	Worker string
	Err    error
}

// ScanLegacy reads the records in the legacy table, whatever kind they say they
// are, for KCL 3.0 to 3.4 do not say. It finds none, without a call, when there
// is no such table or nothing to look for in it, the status being
// [StatusComplete]; and none when the table is gone by now. Those in the lease
// table are read by lease.Store's Scan, together with the leases.
func (s *Store) ScanLegacy(ctx context.Context) (Found, error) {
	r, err := s.routed()
	if err != nil {
		return Found{}, err
	}
	if !r.legacyExists || s.status() == StatusComplete {
		return Found{}, nil
	}
	f, err := s.scan(ctx, true, &dynamodb.ScanInput{})
	if missing(err) {
		return Found{}, nil
	}
	return f, err
}

// List reads the records in the lease table and those of [Store.ScanLegacy]. A
// worker that has started anew at another status may be found twice. The reads
// are not consistent. It is for whoever does not read the leases as well.
func (s *Store) List(ctx context.Context) (Found, error) {
	if _, err := s.routed(); err != nil {
		return Found{}, err
	}
	f, err := s.scan(ctx, false, &dynamodb.ScanInput{
		FilterExpression:          aws.String("#kind = :kind"),
		ExpressionAttributeNames:  map[string]string{"#kind": entity.Attribute},
		ExpressionAttributeValues: item{":kind": entity.WorkerMetricStats.Attr()},
	})
	if err != nil {
		return Found{}, err
	}
	legacy, err := s.ScanLegacy(ctx)
	if err != nil {
		return Found{}, err
	}
	f.Records = append(f.Records, legacy.Records...)
	f.Unreadable = append(f.Unreadable, legacy.Unreadable...)
	f.ReadUnits += legacy.ReadUnits
	return f, nil
}

// scan reads a table page after page.
func (s *Store) scan(ctx context.Context, legacy bool, in *dynamodb.ScanInput) (Found, error) {
	t := s.table(legacy)
	what := "scan worker records in table " + t.name
	in.TableName = &t.name
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	var f Found
	for range maxPages {
		out, err := call(ctx, s, what, func(ctx context.Context) (*dynamodb.ScanOutput, error) {
			return s.cfg.Client.Scan(ctx, in)
		})
		if err != nil {
			return Found{}, err
		}
		for _, it := range out.Items {
			r, err := decode(it, t.key)
			if err != nil {
				f.Unreadable = append(f.Unreadable, Unreadable{r.Worker, fmt.Errorf("table %s: %w", t.name, err)})
				continue
			}
			r.Legacy = legacy
			f.Records = append(f.Records, r)
		}
		if c := out.ConsumedCapacity; c != nil {
			f.ReadUnits += aws.ToFloat64(c.CapacityUnits)
		}
		if len(out.LastEvaluatedKey) == 0 {
			return f, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
	return Found{}, fmt.Errorf("%s: %w: more than %d pages", what, kcl.ErrDependency, maxPages)
}
