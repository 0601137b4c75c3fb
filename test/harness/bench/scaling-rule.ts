import fs from 'node:fs'
import { parseAllDocuments } from 'yaml'

/*
 * What KEDA and Kubernetes' HorizontalPodAutoscaler make of a ScaledObject of deploy/kubernetes/autoscaled: how many
 * processes there should be, from what is measured. Times in ms.
 */

export interface ScalingRule {
  min: number
  max: number
  metrics: ScalingMetric[]
  up: ScalingLimit
  down: ScalingLimit
}

interface ScalingMetric {
  /** What Prometheus is asked. */
  query: string
  threshold: number
  /** `Value`: the measured value is of all together; `AverageValue`: it is shared out among the processes. */
  type: 'Value' | 'AverageValue'
}

/** How fast it may change; of several policies that which allows the greater change counts, as is Kubernetes' default. */
interface ScalingLimit {
  /** Of the numbers wanted within so long the one that changes least counts. */
  windowMs: number
  policies: { type: 'Percent' | 'Pods'; value: number; periodMs: number }[]
}

interface ScaledObject {
  metadata: { name: string }
  spec: {
    minReplicaCount: number
    maxReplicaCount: number
    triggers: { metricType: ScalingMetric['type']; metadata: { query: string; threshold: string } }[]
  }
}

interface Behavior {
  stabilizationWindowSeconds: number
  policies: { type: 'Percent' | 'Pods'; value: number; periodSeconds: number }[]
}

interface Kustomization {
  patches: { patch: string }[]
}

/** One change of a patch; `value` is that of `/spec/advanced`, the only one that is read. */
interface Change {
  path: string
  value: { horizontalPodAutoscalerConfig: { behavior: { scaleUp: Behavior; scaleDown: Behavior } } }
}

const readFile = (name: string): string =>
  fs.readFileSync(new URL(`../../../deploy/kubernetes/autoscaled/${name}`, import.meta.url), 'utf8')
const parseYaml = <T>(text: string): T[] => parseAllDocuments(text).map((one) => one.toJS() as T)

/** No change for a value within a tenth of the threshold. */
const TOLERANCE = 0.1

/** Reads the rule of a pool as it is shipped. */
export function readScalingRule(name: string): ScalingRule {
  const object = parseYaml<ScaledObject>(readFile('scale.yaml')).find(
    ({ metadata }) => metadata.name === name,
  )
  const advanced = parseYaml<Kustomization>(readFile('kustomization.yaml'))
    .flatMap(({ patches }) => patches)
    .flatMap(({ patch }) => parseYaml<Change[]>(patch).flat())
    .find(({ path }) => path === '/spec/advanced')
  if (object === undefined || advanced === undefined) throw new Error(`there is no whole rule for ${name}`)
  const { scaleUp, scaleDown } = advanced.value.horizontalPodAutoscalerConfig.behavior
  const { minReplicaCount: min, maxReplicaCount: max, triggers } = object.spec
  return {
    min,
    max,
    metrics: triggers.map(({ metricType: type, metadata: { query, threshold } }) => ({
      query,
      threshold: Number(threshold),
      type,
    })),
    up: limitOf(scaleUp),
    down: limitOf(scaleDown),
  }
}

const limitOf = ({ stabilizationWindowSeconds, policies }: Behavior): ScalingLimit => ({
  windowMs: stabilizationWindowSeconds * 1_000,
  policies: policies.map(({ type, value, periodSeconds }) => ({
    type,
    value,
    periodMs: periodSeconds * 1_000,
  })),
})

export interface Scaler {
  /**
   * How many there should be now.
   *
   * @param values what each metric of the rule measures
   * @param count how many there are
   */
  decide(atMs: number, values: readonly number[], count: number): number
}

export function createScaler({ min, max, metrics, up, down }: ScalingRule): Scaler {
  const wanted: { atMs: number; count: number }[] = []
  const changes: { atMs: number; by: number }[] = []
  /** How many there may be, by the policies and what was changed within the period of each. */
  const bound = (atMs: number, count: number, { policies }: ScalingLimit, sign: 1 | -1): number => {
    const bounds = policies.map(({ type, value, periodMs }) => {
      const recent = changes.filter((one) => one.atMs > atMs - periodMs && Math.sign(one.by) === sign)
      const before = count - recent.reduce((sum, { by }) => sum + by, 0)
      const change = type === 'Pods' ? value : (before * value) / 100
      return sign === 1 ? Math.ceil(before + change) : Math.floor(before - change)
    })
    return sign === 1 ? Math.max(...bounds) : Math.min(...bounds)
  }
  return {
    decide(atMs, values, count) {
      const each = metrics.map(({ threshold, type }, index) => {
        const value = values[index] ?? 0
        const ratio = type === 'Value' ? value / threshold : value / (threshold * count)
        return Math.abs(ratio - 1) <= TOLERANCE ? count : Math.ceil(count * ratio)
      })
      const now = Math.min(max, Math.max(min, ...each))
      wanted.push({ atMs, count: now })
      const within = (ms: number) => wanted.filter((one) => one.atMs >= atMs - ms).map((one) => one.count)
      const least = Math.min(...within(up.windowMs))
      const most = Math.max(...within(down.windowMs))
      let next = count
      if (least > count) next = Math.min(least, Math.max(count, bound(atMs, count, up, 1)))
      else if (most < count) next = Math.max(most, Math.min(count, bound(atMs, count, down, -1)))
      if (next !== count) changes.push({ atMs, by: next - count })
      return next
    },
  }
}
