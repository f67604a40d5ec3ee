package dynamodb

import (
	"crypto/md5"
	"encoding/binary"
	"math/bits"
	"strings"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/expr"
)

// Limits of key values in bytes.
const (
	maxHashKey  = 2048
	maxRangeKey = 1024
)

// keySchema is the key of a table or of an index. Without a sort key, rang is
// the zero KeyAttr.
type keySchema struct{ hash, rang expr.KeyAttr }

func (k keySchema) hasRange() bool { return k.rang.Name != "" }

// names returns the key's attributes, one or two.
func (k keySchema) names() []string {
	if k.hasRange() {
		return []string{k.hash.Name, k.rang.Name}
	}
	return []string{k.hash.Name}
}

func (k keySchema) attrs() []expr.KeyAttr {
	if k.hasRange() {
		return []expr.KeyAttr{k.hash, k.rang}
	}
	return []expr.KeyAttr{k.hash}
}

// pick returns the item's attributes that belong to the key.
func (k keySchema) pick(item attr.Item) attr.Item {
	picked := make(attr.Item, 2)
	k.pickInto(picked, item)
	return picked
}

func (k keySchema) pickInto(into, item attr.Item) {
	for _, a := range k.attrs() {
		if v, ok := item[a.Name]; ok {
			into[a.Name] = v
		}
	}
}

// checkKey checks a Key member: exactly the schema's attributes, rightly typed.
func (k keySchema) checkKey(key attr.Item) error {
	if len(key) != len(k.attrs()) {
		return errKeySchema
	}
	for _, a := range k.attrs() {
		if v, ok := key[a.Name]; !ok || v.Kind() != a.Kind {
			return errKeySchema
		}
	}
	return nil
}

// checkItem checks that a whole item has the key's attributes, rightly typed.
func (k keySchema) checkItem(item attr.Item) error {
	for _, a := range k.attrs() {
		v, ok := item[a.Name]
		if !ok {
			return invalidf("One or more parameter values were invalid: Missing the key %s in the item", a.Name)
		}
		if v.Kind() != a.Kind {
			return invalidf("One or more parameter values were invalid: Type mismatch for key %s expected: %s actual: %s", a.Name, a.Kind, v.Kind())
		}
	}
	return nil
}

// checkValues checks the lengths of a table's key values, whose types fit.
func (k keySchema) checkValues(item attr.Item) error {
	for _, a := range k.attrs() {
		v := item[a.Name]
		if v.Kind() != attr.N && v.Text() == "" {
			return invalidf("One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty %s value. Key: %s", emptyName(v), a.Name)
		}
	}
	return k.checkLengths(item)
}

func (k keySchema) checkLengths(item attr.Item) error {
	if v := item[k.hash.Name]; v.Kind() != attr.N && len(v.Text()) > maxHashKey {
		return invalidf("One or more parameter values were invalid: Size of hashkey has exceeded the maximum size limit of%d bytes", maxHashKey)
	}
	if v := item[k.rang.Name]; k.hasRange() && v.Kind() != attr.N && len(v.Text()) > maxRangeKey {
		return invalidf("One or more parameter values were invalid: Aggregated size of all range keys has exceeded the size limit of %d bytes", maxRangeKey)
	}
	return nil
}

func emptyName(v attr.Value) string {
	if v.Kind() == attr.B {
		return "binary"
	}
	return "string"
}

// partition returns the beginning that the storage keys of one partition share:
// 8 bytes of hash, then the partition key. So entries are ordered by hash, as
// Scan visits them, and a segment is a range of them. MD5 only spreads here, as
// it does in the service's published design.
func partition(key attr.Value) string {
	enc := appendKey(make([]byte, 8, 64), key)
	sum := md5.Sum(enc[8:])
	copy(enc, sum[:8])
	return string(enc)
}

// place returns the storage key of the item with that key.
func (k keySchema) place(item attr.Item) string {
	prefix := partition(item[k.hash.Name])
	if !k.hasRange() {
		return prefix
	}
	return prefix + sortKey(item[k.rang.Name])
}

func sortKey(v attr.Value) string { return string(appendKey(make([]byte, 0, 64), v)) }

// hashOf returns the hash that a storage key begins with.
func hashOf(place string) uint64 { return binary.BigEndian.Uint64([]byte(place[:8])) }

// segmentOf returns which of total equal parts of the hash range holds hash.
func segmentOf(hash uint64, total int) int {
	part, _ := bits.Mul64(hash, uint64(total))
	return int(part)
}

// segmentStart returns the storage key with which a segment begins.
func segmentStart(segment, total int) string {
	if segment == 0 {
		return ""
	}
	// The least hash with hash*total >= segment<<64.
	start, rest := bits.Div64(uint64(segment), 0, uint64(total))
	if rest > 0 {
		start++
	}
	return string(binary.BigEndian.AppendUint64(nil, start))
}

// after returns the least string that is greater than key.
func after(key string) string { return key + "\x00" }

// pastPrefix returns the least string greater than all that begin with prefix.
func pastPrefix(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return prefix + "\xff\xff" // of a prefix of 0xff only; no storage key begins so
}

// appendKey appends a key value so that the bytes have the order of the values,
// and no value's bytes are the beginning of another's of the same type.
func appendKey(dst []byte, v attr.Value) []byte {
	if v.Kind() == attr.N {
		return appendNumber(dst, v.Text())
	}
	dst = appendEscaped(dst, v.Text())
	return append(dst, 0, 1)
}

// appendEscaped appends the bytes that every key value beginning with text has.
func appendEscaped(dst []byte, text string) []byte {
	for i := range len(text) {
		if dst = append(dst, text[i]); text[i] == 0 {
			dst = append(dst, 0xff)
		}
	}
	return dst
}

// appendNumber appends a number given as canonical plain decimal: sign, exponent
// of the first significant digit, digits, end. A negative number has all bytes
// inverted, which inverts the order.
func appendNumber(dst []byte, text string) []byte {
	if text == "0" {
		return append(dst, 0x80)
	}
	start := len(dst)
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	whole, fraction, _ := strings.Cut(text, ".")
	digits := whole + fraction
	significant := strings.TrimLeft(digits, "0")
	exponent := len(whole) - (len(digits) - len(significant)) // -129 … 126
	dst = append(dst, 0xc0, byte(exponent+129))
	dst = append(dst, strings.TrimRight(significant, "0")...)
	dst = append(dst, 0)
	if negative {
		for i := range dst[start:] {
			dst[start+i] ^= 0xff
		}
	}
	return dst
}
