//go:build !race

package singletable

const raceDetector = false
