"""The address that ends a subscription: its token is all that it asks for."""

from django.urls import path

from monitor.reports import views

urlpatterns = [path("unsubscribe/<str:token>/", views.unsubscribe, name="unsubscribe")]
