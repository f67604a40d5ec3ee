package coordinator

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/go-kcl/kcl/internal/entity"
	"github.com/go-kcl/kcl/internal/interchange"
)

// Each of our requests has the key, attributes, types and conditions of Java's
// for the same act, and nothing else but what javaExceptions adds. As every term
// of a condition is compared, none can be taken out unnoticed.
func TestRequestsAreJavas(t *testing.T) {
	for _, j := range []struct {
		act      string
		to       string // what is written
		scenario string
		line     int
	}{
		{"get", "", "client-version-phase-1-3.5", 3},
		{"create", "CLIENT_VERSION_UPGRADE_FROM_2X", "client-version-phase-2-3.5", 4},
		{"create", "CLIENT_VERSION_3X", "fresh-3.5-multi-stream", 6},
		{"update", "CLIENT_VERSION_3X_WITH_ROLLBACK", "client-version-phase-2-3.5", 14},
	} {
		t.Run(j.act+" "+j.scenario, func(t *testing.T) {
			java := interchange.Java(t, j.scenario, j.line)
			var in struct {
				TableName        string
				Item             json.RawMessage
				AttributeUpdates map[string]struct{ Value json.RawMessage }
				Expected         map[string]struct{ Value struct{ S ClientVersion } }
			}
			require.NoError(t, json.Unmarshal(java.Body, &in))
			got := interchange.Sent(t, func(client *dynamodb.Client) {
				s := NewStore(StoreConfig{Client: client, Table: in.TableName})
				var err error
				switch ctx := context.Background(); j.act {
				case "get":
					_, _, err = s.ClientVersion(ctx)
				case "create":
					av, bad := attributevalue.UnmarshalMapJSON(in.Item)
					require.NoError(t, bad)
					_, err = s.CreateClientVersion(ctx, stateOf(t, av, j.to))
				case "update":
					av := map[string]types.AttributeValue{entity.LeaseTableKey: str(ClientVersionKey)}
					for name, u := range in.AttributeUpdates {
						v, bad := attributevalue.UnmarshalJSON(u.Value)
						require.NoError(t, bad)
						av[name] = v
					}
					_, err = s.UpdateClientVersion(ctx, stateOf(t, av, j.to), in.Expected["cv"].Value.S, nil)
				}
				require.ErrorIs(t, err, interchange.ErrCaptured)
			})
			want := interchange.Parse(t, java.Request)
			javaExceptions(j.act, &want)
			assert.Equal(t, want, interchange.Parse(t, got))
		})
	}
}

// stateOf reads an item that holds that version.
func stateOf(t *testing.T, av map[string]types.AttributeValue, version string) ClientVersionState {
	t.Helper()
	it, ok := itemOf(av)
	require.True(t, ok)
	m, err := migrationOf[ClientVersion](it)
	require.NoError(t, err)
	require.Equal(t, version, string(m.Value))
	return m
}
