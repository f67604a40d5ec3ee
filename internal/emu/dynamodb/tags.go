package dynamodb

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// tags are a table's tags. A write of them shows a little later.
type tags struct {
	now    map[string]string // never modified, only replaced
	before map[string]string // shown until the last write shows
	shown  time.Time         // when that is
	busy   time.Time         // no further write until then
}

type tag struct{ Key, Value string }

var errTooManyTags = invalidf("One or more parameter values were invalid: Too many tags: the limit is %d", maxTags)

// visible returns the tags that a listing shows.
func (g *tags) visible(now time.Time) map[string]string {
	if now.Before(g.shown) {
		return g.before
	}
	return g.now
}

// newTags returns the tags as a map; each key must come once.
func newTags(list []tag) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, g := range list {
		if _, twice := m[g.Key]; twice {
			return nil, invalidf("One or more parameter values were invalid: Duplicate tag key: %s", g.Key)
		}
		m[g.Key] = g.Value
	}
	return m, nil
}

func (c *constraints) tags(list []tag, member string) {
	for i, g := range list {
		at := fmt.Sprintf("%s.%d.member.", member, i+1)
		c.length(utf8.RuneCountInString(g.Key), at+"key", 1, 128, g.Key)
		c.length(utf8.RuneCountInString(g.Value), at+"value", 0, 256, g.Value)
	}
}

func (c *constraints) resource(arn *string) {
	if c.required(arn != nil, "resourceArn"); arn != nil {
		c.length(len(*arn), "resourceArn", 1, 1283, *arn)
	}
}

// checkResource checks that an ARN is one of a table.
func checkResource(arn string) error {
	parts := strings.SplitN(arn, ":", 6)
	if len(parts) == 6 && parts[0] == "arn" && parts[2] == "dynamodb" {
		if name, ok := strings.CutPrefix(parts[5], "table/"); ok && namePattern.MatchString(name) && name != "" {
			return nil
		}
	}
	return invalidf("Invalid TableArn: Invalid ResourceArn provided as input %s", arn)
}

// taggedTable returns the table for a call on tags: not in its creation.
func (v *view) taggedTable(arn string) (*table, error) {
	t := v.find(arn)
	if t == nil {
		return nil, errNoResource(arn)
	}
	switch t.status(v.now) {
	case creating:
		if v.now.Before(t.life.active.Add(-v.timing.TagsInUse)) {
			return nil, errNoResource(arn)
		}
		return nil, inUse("Table is being created: %s", t.name)
	case deleting:
		return nil, inUse("Table is being deleted: %s", t.name)
	}
	return t, nil
}

func errNoResource(arn string) error {
	return refuse("ResourceNotFoundException", "Requested resource not found: ResourceArn: %s not found", arn)
}

// retag replaces the table's tags. To write what is there already is free.
func (v *view) retag(t *table, to map[string]string) (any, error) {
	g := &t.tags
	switch {
	case maps.Equal(g.now, to):
		return emptyBody{}, nil
	case len(to) > maxTags:
		return nil, errTooManyTags
	case v.now.Before(g.busy):
		return nil, limitExceeded("Table tags are being updated: %s", t.name)
	}
	t.tags = tags{
		now:    to,
		before: g.visible(v.now),
		shown:  v.now.Add(v.timing.TagsStale),
		busy:   v.now.Add(v.timing.TagsBusy),
	}
	return emptyBody{}, nil
}

// tagResource is TagResource.
type tagResource struct {
	ResourceArn *string
	Tags        []tag
}

func (r *tagResource) tables() []string { return named(r.ResourceArn) }

func (r *tagResource) compile() (plan, error) {
	var c constraints
	c.resource(r.ResourceArn)
	c.required(r.Tags != nil, "tags")
	c.tags(r.Tags, "tags")
	if err := c.err(); err != nil {
		return plan{}, err
	}
	if len(r.Tags) == 0 {
		return plan{}, invalidf("Atleast one Tag needs to be provided as Input.")
	}
	added, err := newTags(r.Tags)
	if err != nil {
		return plan{}, err
	}
	if err := checkResource(*r.ResourceArn); err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) {
		t, err := v.taggedTable(*r.ResourceArn)
		if err != nil {
			return nil, err
		}
		to := maps.Clone(t.tags.now)
		maps.Copy(to, added)
		return v.retag(t, to)
	}}, nil
}

// untagResource is UntagResource.
type untagResource struct {
	ResourceArn *string
	TagKeys     []string
}

func (r *untagResource) tables() []string { return named(r.ResourceArn) }

func (r *untagResource) compile() (plan, error) {
	var c constraints
	c.resource(r.ResourceArn)
	c.required(r.TagKeys != nil, "tagKeys")
	for i, key := range r.TagKeys {
		c.length(utf8.RuneCountInString(key), fmt.Sprintf("tagKeys.%d.member", i+1), 1, 128, key)
	}
	if err := c.err(); err != nil {
		return plan{}, err
	}
	if len(r.TagKeys) == 0 {
		return plan{}, invalidf("Atleast one Tag Key needs to be provided as Input.")
	}
	if err := checkResource(*r.ResourceArn); err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) {
		t, err := v.taggedTable(*r.ResourceArn)
		if err != nil {
			return nil, err
		}
		to := maps.Clone(t.tags.now)
		for _, key := range r.TagKeys {
			delete(to, key)
		}
		return v.retag(t, to)
	}}, nil
}

// listTagsOfResource is ListTagsOfResource. A table's tags fit on one page.
type listTagsOfResource struct{ ResourceArn *string }

func (r *listTagsOfResource) tables() []string { return named(r.ResourceArn) }

func (r *listTagsOfResource) compile() (plan, error) {
	var c constraints
	c.resource(r.ResourceArn)
	if err := c.err(); err != nil {
		return plan{}, err
	}
	if err := checkResource(*r.ResourceArn); err != nil {
		return plan{}, err
	}
	return plan{run: func(v *view) (any, error) {
		t, err := v.taggedTable(*r.ResourceArn)
		if err != nil {
			return nil, err
		}
		shown := t.tags.visible(v.now)
		out := struct{ Tags []tag }{Tags: []tag{}}
		for _, key := range slices.Sorted(maps.Keys(shown)) {
			out.Tags = append(out.Tags, tag{key, shown[key]})
		}
		return out, nil
	}}, nil
}
