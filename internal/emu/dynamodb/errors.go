package dynamodb

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-kcl/kcl/internal/emu/attr"
	"github.com/go-kcl/kcl/internal/emu/wire"
)

// What stands before the # of an error's __type.
const (
	modelled     = "com.amazonaws.dynamodb.v20120810#"
	coralService = "com.amazon.coral.service#"
	coralBusy    = "com.amazon.coral.availability#"
)

var invalidf = attr.Invalidf // a ValidationException

func refuse(code, format string, args ...any) *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Type: modelled + code, Message: fmt.Sprintf(format, args...)}
}

// inUse returns the ResourceInUseException with its usual beginning.
func inUse(format string, args ...any) *wire.Error {
	return refuse("ResourceInUseException", "Attempt to change a resource which is still in use: "+format, args...)
}

func limitExceeded(format string, args ...any) *wire.Error {
	return refuse("LimitExceededException", "Subscriber limit exceeded: "+format, args...)
}

// decodeError returns the SerializationException for a body that cannot be
// decoded. An attribute value says what is wrong, anything else does not.
func decodeError(err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return &wire.Error{Status: http.StatusBadRequest, Type: coralService + "SerializationException"}
}

func unknownOperation() *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Type: coralService + "UnknownOperationException"}
}

var (
	errNoTable        = refuse("ResourceNotFoundException", "Requested resource not found")
	errConflict       = refuse("TransactionConflictException", "Transaction is ongoing for the item")
	errKeySchema      = invalidf("The provided key element does not match the schema")
	errDuplicateKeys  = invalidf("Provided list of item keys contains duplicates")
	errItemTooLarge   = invalidf("Item size has exceeded the maximum allowed size")
	errUpdateTooLarge = invalidf("Item size to update has exceeded the maximum allowed size")
)

func errNoNamedTable(name string) *wire.Error {
	return refuse("ResourceNotFoundException", "Requested resource not found: Table: %s not found", name)
}

// wireError returns err as what goes on the wire. An error of another type is a
// fault of this package, and tells so as a server's error does.
func wireError(err error) *wire.Error {
	var e *wire.Error
	if errors.As(err, &e) {
		return e
	}
	return &wire.Error{Status: http.StatusInternalServerError, Type: modelled + "InternalServerError", Message: err.Error()}
}

var errOneIndexAtATime = limitExceeded("Only 1 online index can be created or deleted simultaneously per table")

func errNoNamedIndex(t *table, index string) *wire.Error {
	return refuse("ResourceNotFoundException", "Requested resource not found: Index %s for table %s", index, t.name)
}

func throttled(format string, args ...any) *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Type: coralBusy + "ThrottlingException", Message: fmt.Sprintf(format, args...)}
}
