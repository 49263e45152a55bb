# Images for amd64 and arm64: REGISTRY=registry.example.org/network/ docker buildx bake --push
# A builder for both: docker buildx create --use --platform linux/amd64,linux/arm64
variable "VERSION" {
  default = "0.1.0"
}

variable "REGISTRY" { # as registry.example.org/network/
  default = ""
}

group "default" {
  targets = ["soundings", "agent"]
}

target "both" {
  context   = "."
  platforms = ["linux/amd64", "linux/arm64"]
  args      = { VERSION = VERSION }
}

target "soundings" {
  inherits   = ["both"]
  dockerfile = "Dockerfile"
  tags       = ["${REGISTRY}soundings:${VERSION}"]
}

target "agent" {
  inherits   = ["both"]
  dockerfile = "packaging/agent.Dockerfile"
  tags       = ["${REGISTRY}soundings-agent:${VERSION}"]
}
