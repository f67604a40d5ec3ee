package lease

// Deletable is for tests that need packages which import this one.
var Deletable = deletable
