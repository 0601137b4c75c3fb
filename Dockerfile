# One image for every part of the network; the command says which part a container is. To pin what a tag names today,
# write its digest behind it: docker buildx imagetools inspect node:24.21.0-bookworm-slim
FROM node:24.21.0-bookworm-slim AS packages
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY client/package.json client/
# The image brings the runtime, so the package that fetches one has nothing to do. Optional packages are those for Monero and for
# traces: docker compose build --build-arg OMIT=optional leaves them out, some 90 MB. A library names TypeScript, and doesn't use it.
ARG OMIT=dev
RUN npm ci --omit=dev --omit=$OMIT --ignore-scripts && npm cache clean --force \
  && rm -rf node_modules/typescript node_modules/@typescript

FROM node:24.21.0-bookworm-slim
ENV NODE_ENV=production
# Secrets and volumes belong to this user by its number; docker-compose.yml names the same.
RUN groupadd --system --gid 10001 agents \
  && useradd --system --uid 10001 --gid 10001 --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin agents \
  && install --directory --owner=10001 --group=10001 --mode=700 /var/lib/agent-network/seal /var/lib/agent-network/wallet
WORKDIR /app
COPY --from=packages /app/node_modules node_modules
COPY package.json ./
COPY shared shared
COPY client client
COPY api api
COPY workers workers
COPY scripts scripts
# Served as they are: GET /changelog, /llms-full.txt and /vectors.
COPY CHANGELOG.md ./
COPY docs/agents.md docs/agents.md
COPY test/vectors test/vectors
# docker compose build --build-arg COMMIT=$(git rev-parse HEAD): what /healthz, the metrics and `operator status` say.
ARG COMMIT=unknown
RUN printf '%s\n' "$COMMIT" > build-commit
USER 10001:10001
CMD ["node", "api/main.ts"]
