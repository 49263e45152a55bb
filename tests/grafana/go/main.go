// Copyright the authors of Soundings.
// SPDX-License-Identifier: AGPL-3.0-only

// Command queries runs queries through the PostgreSQL data source of Grafana.
//
// It is a test program and no part of Soundings, which is under Apache-2.0: it is built only by `python -m tests.grafana`
// and talks to it through its standard input and output. It imports packages of Grafana, which are under AGPL-3.0-only,
// so it is offered under the same licence: the text is in the file LICENSE beside this one.
//
// The first line of its input is the data source's settings in JSON. Each other line is the requests of a panel,
// annotation, variable or alert rule; for each, a line of output has Grafana's own answer.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"

	"github.com/grafana/grafana/pkg/setting"
	"github.com/grafana/grafana/pkg/tsdb/postgres"
)

type dataSource struct {
	UID      string          `json:"uid"`
	URL      string          `json:"url"`
	User     string          `json:"user"`
	Password string          `json:"password"`
	JSONData json.RawMessage `json:"jsonData"`
}

type request struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Queries []query   `json:"queries"`
}

type query struct {
	RefID         string          `json:"refId"`
	IntervalMS    int64           `json:"intervalMs"`
	MaxDataPoints int64           `json:"maxDataPoints"`
	Model         json.RawMessage `json:"model"`
}

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(in io.Reader, out io.Writer) error {
	lines, answers := json.NewDecoder(in), json.NewEncoder(out)
	var source dataSource
	if err := lines.Decode(&source); err != nil {
		return fmt.Errorf("settings of the data source: %w", err)
	}
	service := postgres.ProvideService(defaults())
	plugin := backend.PluginContext{
		OrgID: 1,
		DataSourceInstanceSettings: &backend.DataSourceInstanceSettings{
			ID: 1, UID: source.UID, Name: "Soundings", URL: source.URL, User: source.User, JSONData: source.JSONData,
			DecryptedSecureJSONData: map[string]string{"password": source.Password},
		},
	}
	for {
		var panel request
		if err := lines.Decode(&panel); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		answer, err := service.QueryData(context.Background(), &backend.QueryDataRequest{
			PluginContext: plugin, Queries: panel.dataQueries(),
		})
		if err != nil {
			return err
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
}

func (r request) dataQueries() []backend.DataQuery {
	queries := make([]backend.DataQuery, 0, len(r.Queries))
	for _, q := range r.Queries {
		queries = append(queries, backend.DataQuery{
			RefID: q.RefID, MaxDataPoints: q.MaxDataPoints, Interval: time.Duration(q.IntervalMS) * time.Millisecond,
			TimeRange: backend.TimeRange{From: r.From, To: r.To}, JSON: q.Model,
		})
	}
	return queries
}

// defaults has the values of conf/defaults.ini that the data source reads.
func defaults() *setting.Cfg {
	cfg := setting.NewCfg()
	cfg.DataPath = os.TempDir()
	cfg.DataProxyRowLimit = 1_000_000
	cfg.SqlDatasourceMaxOpenConnsDefault = 100
	cfg.SqlDatasourceMaxIdleConnsDefault = 100
	cfg.SqlDatasourceMaxConnLifetimeDefault = 14_400
	return cfg
}
