package workermetrics

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/go-kcl/kcl/internal/entity"
)

// The attributes of a record.
const (
	attrKey            = entity.LeaseTableKey
	attrUpdated        = "lut"
	attrStats          = "sts"
	attrOperatingRange = "opr"
	attrSupport        = "sup"
	attrSupportUpdated = "slu"
)

type (
	item = map[string]types.AttributeValue
	// The attribute values in use.
	str    = types.AttributeValueMemberS
	number = types.AttributeValueMemberN
	list   = types.AttributeValueMemberL
	object = types.AttributeValueMemberM
	null   = types.AttributeValueMemberNULL
)

var (
	errMissing   = errors.New("is missing")
	errWrongType = errors.New("has the wrong type")
)

// Decode reads a worker's record in the lease table. Attributes that it does
// not know are passed over, and an absent one is no error. One of a type that a
// Java worker could not read is, so that all leaders see the same workers, and
// the Record then has the worker's id only; but a support code that makes no
// sense counts as none.
func Decode(it map[string]types.AttributeValue) (Record, error) { return decode(it, attrKey) }

// decode is [Decode] of an item whose key has that name.
func decode(it item, keyName string) (Record, error) {
	key, ok := it[keyName].(*str)
	if !ok || key.Value == "" {
		return Record{}, fmt.Errorf("worker record without %s", keyName)
	}
	r := Record{Worker: key.Value}
	fail := func(attr string, err error) (Record, error) {
		return Record{Worker: r.Worker}, fmt.Errorf("record of worker %q: attribute %s: %w", r.Worker, attr, err)
	}
	var err error
	if r.Updated, err = decodeTime(it[attrUpdated]); err != nil {
		return fail(attrUpdated, err)
	}
	if r.Stats, err = decodeLists(it[attrStats], decodeFloat); err != nil {
		return fail(attrStats, err)
	}
	if r.OperatingRange, err = decodeLists(it[attrOperatingRange], decodeInt); err != nil {
		return fail(attrOperatingRange, err)
	}
	if n, err := decodeInt(it[attrSupport]); err == nil && n > 0 && n <= math.MaxInt32 {
		r.Support = int(n)
	}
	if t, err := decodeTime(it[attrSupportUpdated]); err == nil {
		r.SupportUpdated = t
	}
	return r, nil
}

func absent(v types.AttributeValue) bool {
	if v == nil {
		return true
	}
	n, ok := v.(*null)
	return ok && n.Value
}

func decodeTime(v types.AttributeValue) (time.Time, error) {
	if absent(v) {
		return time.Time{}, nil
	}
	sec, err := decodeInt(v)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(sec, 0), nil
}

func decodeInt(v types.AttributeValue) (int64, error) {
	n, ok := v.(*number)
	if !ok {
		return 0, errWrongType
	}
	return strconv.ParseInt(n.Value, 10, 64)
}

func decodeFloat(v types.AttributeValue) (float64, error) {
	n, ok := v.(*number)
	if !ok {
		return 0, errWrongType
	}
	return strconv.ParseFloat(n.Value, 64)
}

func decodeLists[T any](v types.AttributeValue, element func(types.AttributeValue) (T, error)) (map[string][]T, error) {
	if absent(v) {
		return nil, nil
	}
	m, ok := v.(*object)
	if !ok {
		return nil, errWrongType
	}
	out := make(map[string][]T, len(m.Value))
	for _, name := range slices.Sorted(maps.Keys(m.Value)) { // so that a fault is told of in the same words each time
		l, ok := m.Value[name].(*list)
		if !ok {
			return nil, fmt.Errorf("metric %s %w", name, errWrongType)
		}
		values := make([]T, len(l.Value))
		for i, e := range l.Value {
			n, err := element(e)
			if err != nil {
				return nil, fmt.Errorf("metric %s: %w", name, err)
			}
			values[i] = n
		}
		out[name] = values
	}
	return out, nil
}

// encode returns the attributes of r that a report sets, the key not among
// them.
func encode(r Record) item {
	it := item{entity.Attribute: entity.WorkerMetricStats.Attr()}
	putTime(it, attrUpdated, r.Updated)
	putLists(it, attrStats, r.Stats, func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) })
	putLists(it, attrOperatingRange, r.OperatingRange, func(n int64) string { return strconv.FormatInt(n, 10) })
	if r.Support > 0 {
		it[attrSupport] = &number{Value: strconv.Itoa(r.Support)}
	}
	putTime(it, attrSupportUpdated, r.SupportUpdated)
	return it
}

func putTime(it item, attr string, t time.Time) {
	if !t.IsZero() {
		it[attr] = timeValue(t)
	}
}

func timeValue(t time.Time) types.AttributeValue {
	return &number{Value: strconv.FormatInt(t.Unix(), 10)}
}

func putLists[T any](it item, attr string, lists map[string][]T, text func(T) string) {
	if lists == nil {
		return
	}
	m := make(item, len(lists))
	for name, values := range lists {
		l := make([]types.AttributeValue, len(values))
		for i, v := range values {
			l[i] = &number{Value: text(v)}
		}
		m[name] = &list{Value: l}
	}
	it[attr] = &object{Value: m}
}

// check returns an error for a record that must not be written: others could
// not read it, or would take it for a sign of life that it is not.
func (r Record) check(now time.Time, period time.Duration) error {
	switch {
	case r.Worker == "":
		return fmt.Errorf("worker id %w", errMissing)
	case r.Updated.IsZero():
		return fmt.Errorf("time of update %w", errMissing)
	case now.Sub(r.Updated) >= 2*period:
		return fmt.Errorf("time of update is %s ago, must be less than %s", now.Sub(r.Updated), 2*period)
	case r.Stats == nil:
		return fmt.Errorf("map of stats %w", errMissing)
	}
	for name, values := range r.Stats {
		if len(values) == 0 {
			return fmt.Errorf("metric %s has no values", name)
		}
		for _, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("metric %s has the value %v", name, v)
			}
		}
	}
	return nil
}
