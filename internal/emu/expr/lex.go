package expr

import "strings"

type tokenKind uint8

const (
	tokEnd    tokenKind = iota
	tokWord             // a bare name, a function's name or a key word
	tokName             // #n
	tokValue            // :v
	tokNumber           // digits, of a list index
	tokSign             // a comparator, bracket, comma, dot, plus or minus
	tokBad              // what belongs to no expression
)

// token is a piece of an expression, text included.
type token struct {
	kind     tokenKind
	text     string
	from, to int
}

func (t token) is(sign string) bool { return t.kind == tokSign && t.text == sign }

// isWord reports whether t is that key word, in any case of letters.
func (t token) isWord(word string) bool {
	return t.kind == tokWord && len(t.text) == len(word) && strings.EqualFold(t.text, word)
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// isTokenChar reports whether c may follow in a name or placeholder.
func isTokenChar(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' }

// nextToken reads the token at or after offset i.
func nextToken(src string, i int) token {
	for i < len(src) && strings.IndexByte(" \t\r\n", src[i]) >= 0 {
		i++
	}
	if i == len(src) {
		return token{kind: tokEnd, text: "<EOF>", from: i, to: i}
	}
	run := func(kind tokenKind, to int, more func(byte) bool) token {
		for to < len(src) && more(src[to]) {
			to++
		}
		return token{kind: kind, text: src[i:to], from: i, to: to}
	}
	one := func(kind tokenKind, n int) token {
		return token{kind: kind, text: src[i : i+n], from: i, to: i + n}
	}
	switch c := src[i]; {
	case isLetter(c):
		return run(tokWord, i+1, isTokenChar)
	case isDigit(c):
		return run(tokNumber, i+1, isDigit)
	case c == '#' || c == ':':
		t := run(tokName, i+1, isTokenChar)
		if len(t.text) == 1 {
			t.kind = tokBad
		} else if c == ':' {
			t.kind = tokValue
		}
		return t
	case c == '<' || c == '>':
		if two := src[i:min(i+2, len(src))]; two == "<=" || two == ">=" || two == "<>" {
			return one(tokSign, 2)
		}
		return one(tokSign, 1)
	case strings.IndexByte("=()[],.+-", c) >= 0:
		return one(tokSign, 1)
	}
	return one(tokBad, 1)
}
