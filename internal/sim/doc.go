// Package sim runs whole fleets of real workers, with real SDK clients, on the
// emulated AWS, under virtual time. Its tests hold the library to what it
// promises on bad days, and measure how long shards are read by nobody.
//
// It holds no code of its own: all of it is tests. They reach the library by
// what a user reaches, scheduler and kcltest, and see what happens at the wire; the
// lease table they read with package lease.
package sim
