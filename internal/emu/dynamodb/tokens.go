package dynamodb

import (
	"crypto/sha256"
	"time"

	"github.com/go-kcl/kcl/internal/emu/wire"
)

// tokenLife is for how long after its transaction a request token is known.
const tokenLife = 10 * time.Minute

// tokens are the request tokens of the transactions that went through lately.
type tokens struct {
	known map[string]token
	queue []string // oldest first, for forgetting
}

type token struct {
	digest   [sha256.Size]byte // of the request's content
	finished time.Time
}

// check reports whether the transaction with that token has been carried out.
// It is an error if it is still going on, or had another content.
func (k *tokens) check(id string, digest [sha256.Size]byte, now time.Time) (bool, error) {
	k.forget(now)
	t, ok := k.known[id]
	switch {
	case !ok:
		return false, nil
	case t.digest != digest:
		return false, told("IdempotentParameterMismatchException", "The request was rejected because a request with the same client token but different parameters has been processed.")
	case now.Before(t.finished):
		return false, told("TransactionInProgressException", "The transaction with the given request token is already in progress.")
	}
	return true, nil
}

// told is an error whose text is in "Message".
func told(code, text string) *wire.Error {
	e := refuse(code, "%s", text)
	e.MessageKey = "Message"
	return e
}

func (k *tokens) add(id string, digest [sha256.Size]byte, finished time.Time) {
	if k.known == nil {
		k.known = map[string]token{}
	}
	k.known[id] = token{digest, finished}
	k.queue = append(k.queue, id)
}

// forget drops the tokens whose life is over.
func (k *tokens) forget(now time.Time) {
	n := 0
	for n < len(k.queue) && !k.known[k.queue[n]].finished.Add(tokenLife).After(now) {
		delete(k.known, k.queue[n])
		n++
	}
	k.queue = k.queue[n:]
}
