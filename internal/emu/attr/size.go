package attr

// Size is the item's size in bytes: names and values.
func (it Item) Size() int {
	n := 0
	for name, v := range it {
		n += len(name) + v.Size()
	}
	return n
}

// Size is the value's part of an item's size in bytes.
func (v Value) Size() int {
	switch v.kind {
	case S, B:
		return len(v.text)
	case N:
		return numberSize(v.text)
	case BOOL, NULL:
		return 1
	case SS, BS:
		n := 0
		for _, m := range v.Members() {
			n += len(m)
		}
		return n
	case NS:
		n := 0
		for _, m := range v.Members() {
			n += numberSize(m)
		}
		return n
	case L:
		n := 3
		for _, e := range v.List() {
			n += 1 + e.Size()
		}
		return n
	case M:
		return 3 + len(v.Map()) + v.Map().Size()
	}
	return 0
}

// numberSize is 1 byte, 1 for each two significant digits of the integer part
// and of the fraction, each rounded up by itself, and 1 for a minus sign. These
// are the service's measured sizes; the developer guide's rule is another.
func numberSize(text string) int {
	n := 1
	if text[0] == '-' {
		n++
		text = text[1:]
	}
	if text == "0" {
		return n
	}
	point := integerDigits(text)
	whole, fraction := text[:point], ""
	if point < len(text) {
		fraction = text[point+1:]
	}
	if fraction == "" { // the zeros that end an integer are not significant
		for whole[len(whole)-1] == '0' {
			whole = whole[:len(whole)-1]
		}
	}
	if whole == "0" { // nor are those that begin a fraction
		whole = ""
		for fraction[0] == '0' {
			fraction = fraction[1:]
		}
	}
	return n + (len(whole)+1)/2 + (len(fraction)+1)/2
}
