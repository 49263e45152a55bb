"""The address of the unsubscribe link, authenticated by its token."""

from django.urls import path

from monitor.reports import views

urlpatterns = [path("unsubscribe/<str:token>/", views.unsubscribe, name="unsubscribe")]
