"""Calculator page."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from monitor.web.pages.calculator import load


@require_safe
def calculator_page(request: HttpRequest) -> HttpResponse:
    figures = load.CalculatorForm(request.GET if request.GET else None)
    context = {"form": figures, "answer": load.answer(figures)}
    return render(request, "pages/calculator/calculator.html", context, status=422 if figures.errors else 200)
