// Copyright the authors of Soundings.
// SPDX-License-Identifier: AGPL-3.0-only

package main

import (
	"context"
	"time"

	"github.com/grafana/grafana-plugin-sdk-go/backend"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/grafana/grafana/pkg/components/simplejson"
	"github.com/grafana/grafana/pkg/expr"
	"github.com/grafana/grafana/pkg/infra/tracing"
	"github.com/grafana/grafana/pkg/plugins"
	"github.com/grafana/grafana/pkg/services/datasources"
	"github.com/grafana/grafana/pkg/services/featuremgmt"
	"github.com/grafana/grafana/pkg/tsdb/postgres"
)

// rules evaluates alert rules by Grafana's expressions, which query the data source through a client of plugins.
type rules struct {
	service *expr.Service
	source  *datasources.DataSource
}

type client struct {
	plugins.Client
	service  *postgres.Service
	settings *backend.DataSourceInstanceSettings
}

func (c client) QueryData(ctx context.Context, r *backend.QueryDataRequest) (*backend.QueryDataResponse, error) {
	r.PluginContext.DataSourceInstanceSettings = c.settings
	return c.service.QueryData(ctx, r)
}

type secrets struct {
	datasources.DataSourceService
}

func (secrets) DecryptedValues(context.Context, *datasources.DataSource) (map[string]string, error) {
	return nil, nil
}

func newRules(service *postgres.Service, source dataSource) *rules {
	caller := client{service: service, settings: source.settings()}
	features, registry, tracer := featuremgmt.WithFeatures(), prometheus.NewRegistry(), tracing.InitializeTracerForTest()
	return &rules{
		service: expr.ProvideService(defaults(), caller, secrets{}, features, registry, tracer),
		source:  &datasources.DataSource{ID: 1, UID: source.UID, Type: source.Type, JsonData: simplejson.New()},
	}
}

func (r *rules) evaluate(rule request) (*backend.QueryDataResponse, error) {
	period := expr.AbsoluteTimeRange{From: rule.From, To: rule.To}
	nodes := make([]expr.Query, 0, len(rule.Queries)+len(rule.Expressions))
	for _, q := range rule.Queries {
		nodes = append(nodes, expr.Query{
			RefID: q.RefID, TimeRange: period, DataSource: r.source, JSON: q.Model,
			Interval: time.Duration(q.IntervalMS) * time.Millisecond, MaxDataPoints: q.MaxDataPoints,
		})
	}
	for _, e := range rule.Expressions {
		nodes = append(nodes, expr.Query{
			RefID: e.RefID, TimeRange: period, DataSource: expr.DataSourceModel(), JSON: e.Model,
		})
	}
	return r.service.TransformData(context.Background(), rule.To, &expr.Request{OrgId: 1, Queries: nodes})
}
