package kinesis

import (
	"fmt"
	"net/http"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

func refuse(code, format string, args ...any) *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Type: code, Message: fmt.Sprintf(format, args...)}
}

func invalidArgument(format string, args ...any) *wire.Error {
	return refuse("InvalidArgumentException", format, args...)
}

func validation(format string, args ...any) *wire.Error {
	return refuse("ValidationException", format, args...)
}

func limitExceeded(format string, args ...any) *wire.Error {
	return refuse("LimitExceededException", format, args...)
}

// serialization is the one error that spells its text with a capital.
func serialization(err error) *wire.Error {
	e := refuse("SerializationException", "%v", err)
	e.MessageKey = "Message"
	return e
}

func unknownOperation() *wire.Error {
	return &wire.Error{Status: http.StatusBadRequest, Type: "UnknownOperationException"}
}

// internalFailure carries the name the service uses, not the modelled
// InternalFailureException, and no text.
func internalFailure() *wire.Error {
	return &wire.Error{Status: http.StatusInternalServerError, Type: "InternalFailure"}
}

func streamNotFound(k streamKey) *wire.Error {
	return refuse("ResourceNotFoundException", "Stream %s under account %s not found.", k.name, k.account)
}

// shardNotFound is the answer of the calls that read.
func shardNotFound(k streamKey, shard uint32) *wire.Error {
	return refuse("ResourceNotFoundException", "Shard %s in stream %s under account %s does not exist", shardID(shard), k.name, k.account)
}

// noSuchShard is the answer of the calls that reshard, and of all calls to a
// shard id that is none.
func noSuchShard(k streamKey, id string) *wire.Error {
	return refuse("ResourceNotFoundException", "Could not find shard %s in stream %s under account %s.", id, k.name, k.account)
}

func streamExists(k streamKey) *wire.Error {
	return refuse("ResourceInUseException", "Stream %s under account %s already exists.", k.name, k.account)
}

func notActive(k streamKey, state string) *wire.Error {
	return refuse("ResourceInUseException", "Stream %s under account %s not ACTIVE, instead in state %s", k.name, k.account, state)
}

func notListable(k streamKey, state string) *wire.Error {
	return refuse("ResourceInUseException", "Stream %s under account %s not ACTIVE or UPDATING, instead in state %s", k.name, k.account, state)
}

func shardRateExceeded(k streamKey, shard uint32) *wire.Error {
	return refuse("ProvisionedThroughputExceededException", "Rate exceeded for shard %s in stream %s under account %s.", shardID(shard), k.name, k.account)
}

func streamRateExceeded(name, account string) *wire.Error {
	return limitExceeded("Rate exceeded for stream %s under account %s.", name, account)
}
