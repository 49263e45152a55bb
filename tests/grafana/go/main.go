// Copyright the authors of Soundings.
// SPDX-License-Identifier: AGPL-3.0-only

// Command queries runs queries through the PostgreSQL data source of Grafana, and alert rules through its expressions.
//
// It is a test program and no part of Soundings, which is under Apache-2.0: only `python -m tests.grafana` builds it, and
// exchanges JSON with it through pipes. It imports packages of Grafana, which are under AGPL-3.0-only, so it is offered
// under the same licence: the text is in the file LICENSE beside this one.
//
// The first line of its input is the data source's settings. Each other line is the queries of a panel, annotation or
// variable, or an alert rule; for each, a line of output has Grafana's own answer.
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
	Type     string          `json:"type"`
	URL      string          `json:"url"`
	User     string          `json:"user"`
	Password string          `json:"password"`
	JSONData json.RawMessage `json:"jsonData"`
}

// request has queries, with expressions if it is an alert rule.
type request struct {
	From        time.Time `json:"from"`
	To          time.Time `json:"to"`
	Queries     []query   `json:"queries"`
	Expressions []query   `json:"expressions"`
}

type query struct {
	RefID         string          `json:"refId"`
	IntervalMS    int64           `json:"intervalMs"`
	MaxDataPoints int64           `json:"maxDataPoints"`
	Model         json.RawMessage `json:"model"`
}

// answer has results by refId, in the JSON of Grafana's API, or an error of the whole.
type answer struct {
	Results backend.Responses `json:"results,omitempty"`
	Error   string            `json:"error,omitempty"`
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
	rules := newRules(service, source)
	for {
		var line request
		if err := lines.Decode(&line); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("request: %w", err)
		}
		if err := answers.Encode(line.answer(service, source, rules)); err != nil {
			return err
		}
	}
}

func (r request) answer(service *postgres.Service, source dataSource, rules *rules) answer {
	var response *backend.QueryDataResponse
	var err error
	if r.Expressions != nil {
		response, err = rules.evaluate(r)
	} else {
		response, err = service.QueryData(context.Background(), &backend.QueryDataRequest{
			PluginContext: backend.PluginContext{OrgID: 1, DataSourceInstanceSettings: source.settings()},
			Queries:       r.dataQueries(),
		})
	}
	if err != nil {
		return answer{Error: err.Error()}
	}
	return answer{Results: response.Responses}
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

func (source dataSource) settings() *backend.DataSourceInstanceSettings {
	return &backend.DataSourceInstanceSettings{
		ID: 1, UID: source.UID, Type: source.Type, Name: "Soundings", URL: source.URL, User: source.User,
		JSONData: source.JSONData, DecryptedSecureJSONData: map[string]string{"password": source.Password},
	}
}

// defaults has the values of conf/defaults.ini that the data source and the expressions read.
func defaults() *setting.Cfg {
	cfg := setting.NewCfg()
	cfg.DataPath = os.TempDir()
	cfg.DataProxyRowLimit = 1_000_000
	cfg.SqlDatasourceMaxOpenConnsDefault = 100
	cfg.SqlDatasourceMaxIdleConnsDefault = 100
	cfg.SqlDatasourceMaxConnLifetimeDefault = 14_400
	cfg.ExpressionsEnabled = true
	return cfg
}
