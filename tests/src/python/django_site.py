# A Django project in one file, run by uWSGI: pages, forms with their token, sessions, uploads, messages, a JSON API.
import hashlib

from django.conf import settings

settings.configure(
    DEBUG=False,
    SECRET_KEY="a key of a test",
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    SESSION_ENGINE="django.contrib.sessions.backends.signed_cookies",
    INSTALLED_APPS=["django.contrib.sessions"],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.gzip.GZipMiddleware",
        "django.middleware.http.ConditionalGetMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.middleware.clickjacking.XFrameOptionsMiddleware",
    ],
    SECURE_PROXY_SSL_HEADER=("HTTP_X_FORWARDED_PROTO", "https"),
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates"}],
    DATA_UPLOAD_MAX_MEMORY_SIZE=50_000_000,
)

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.http import HttpResponse, JsonResponse, StreamingHttpResponse  # noqa: E402
from django.middleware.csrf import get_token  # noqa: E402
from django.shortcuts import redirect  # noqa: E402
from django.template import engines  # noqa: E402
from django.urls import path  # noqa: E402
from django.views.decorators.csrf import csrf_exempt  # noqa: E402

PAGE = "<!doctype html><title>{{ title }}</title>{% for item in items %}<p>{{ item }}</p>{% endfor %}"


def page(request):
    text = engines["django"].from_string(PAGE).render({"title": "a <page>", "items": range(60)})
    return HttpResponse(text)


def about(request):
    return JsonResponse(
        {
            "method": request.method,
            "path": request.get_full_path(),
            "host": request.get_host(),
            "secure": request.is_secure(),
            "query": dict(request.GET),
            "type": request.content_type,
            "agent": request.headers.get("User-Agent", ""),
        }
    )


def form(request):
    if request.method == "POST":
        request.session["name"] = request.POST["name"]
        return redirect("/hello/")
    return HttpResponse(get_token(request))


def hello(request):
    return HttpResponse("hello %s" % request.session.get("name", "stranger"))


@csrf_exempt
def upload(request):
    file = request.FILES["file"]
    digest = hashlib.sha256(b"".join(file.chunks())).hexdigest()
    return HttpResponse("%s %d %s" % (file.name, file.size, digest))


@csrf_exempt
def raw(request):
    return HttpResponse(hashlib.sha256(request.body).hexdigest())


def stream(request):
    return StreamingHttpResponse("%08d\n" % number for number in range(20000))


def broken(request):
    raise ValueError("broken")


urlpatterns = [
    path("", page),
    path("about/", about),
    path("form/", form),
    path("hello/", hello),
    path("upload/", upload),
    path("raw/", raw),
    path("stream/", stream),
    path("broken/", broken),
]
application = get_wsgi_application()
