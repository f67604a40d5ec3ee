package ddb

// OwnerIndex is the lease table's index of leases by owner.
const OwnerIndex = "LeaseOwnerToLeaseKeyIndex"

func notFound(err error) bool { return Code(err) == "ResourceNotFoundException" }
