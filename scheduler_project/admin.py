"""Register django-celery-beat's periodic tasks so that their actions need the permission to change them."""

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django_celery_beat.admin import PeriodicTaskAdmin
from django_celery_beat.models import PeriodicTask


class GuardedPeriodicTaskAdmin(PeriodicTaskAdmin):  # type: ignore[misc]  # django-celery-beat has no types
    """Upstream offers enable, disable, toggle and run to every user who may view the list."""

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        actions: dict[str, Any] = super().get_actions(request)
        if self.has_change_permission(request):
            return actions
        return {name: action for name, action in actions.items() if name not in PeriodicTaskAdmin.actions}


admin.site.unregister(PeriodicTask)
admin.site.register(PeriodicTask, GuardedPeriodicTaskAdmin)
