package attr

import (
	"fmt"
	"net/http"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// Invalidf returns a ValidationException with that message.
func Invalidf(format string, args ...any) *wire.Error {
	return &wire.Error{
		Status:  http.StatusBadRequest,
		Type:    "com.amazon.coral.validate#ValidationException",
		Message: fmt.Sprintf(format, args...),
	}
}

// malformed returns a SerializationException; its text goes by "Message".
func malformed(msg string) *wire.Error {
	return &wire.Error{
		Status:     http.StatusBadRequest,
		Type:       "com.amazon.coral.service#SerializationException",
		Message:    msg,
		MessageKey: "Message",
	}
}
