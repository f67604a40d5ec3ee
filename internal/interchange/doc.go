// Package interchange holds what our code writes to DynamoDB against what Java
// workers wrote. It serves tests only.
//
// The recordings are of released Java KCL workers (3.5.1, 3.4.0 and 2.7.1) and
// of the migration script of 3.5.1:
//
//   - requests: for each scenario every distinct shape of request, first seen
//     first ([Recordings], [Java]). The requests are Java's to the letter; the
//     answers are those of the emulators they ran against and prove nothing.
//   - tables: whole tables at one moment ([States], [Items]).
//
// A request of ours ([Sent]) and a recorded one are compared by what they say
// ([Parse]): Java uses the older members, such as Expected, where we use
// expressions. Where ours says something else on purpose, the package that sends
// it lists the difference with its reason, in one file.
package interchange
