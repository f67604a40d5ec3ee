// Package attr is the value model of the emulated DynamoDB: attribute values,
// items, exact decimal numbers, their JSON form, order, equality and sizes.
//
// A [Value] is immutable and so are the maps and slices inside it: values are
// shared freely between stored items, requests and answers. An update makes
// new maps ([Item.Clone]) and never writes into old ones.
//
// Numbers are exact decimals of at most 38 significant digits, kept as their
// canonical text: plain decimal, never an exponent, no superfluous zero or
// sign. Equal numbers have equal texts, which makes equality, set membership
// and table keys comparisons of strings.
//
// Decoding separates the two ways in which a request's values can be wrong. A
// JSON type that is out of place, or bad base64, is a SerializationException
// from UnmarshalJSON. A value that breaks a rule of the service (two types in
// one value, an empty set, a malformed number, …) decodes to a Value of kind
// [Invalid] that carries its ValidationException; [Value.Check] and
// [Item.Check] hand it out, when its turn among the checks of a request has
// come. A value that has not passed Check must not be stored.
package attr
