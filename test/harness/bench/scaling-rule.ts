/*
 * What KEDA and Kubernetes' HorizontalPodAutoscaler make of a ScaledObject of deploy/kubernetes/autoscaled: how many
 * processes there should be, from what is measured. Pure; times in ms.
 */

export interface ScalingRule {
  min: number
  max: number
  threshold: number
  /** `Value`: the measured value is of all together; `AverageValue`: it is shared out among the processes. */
  metricType: 'Value' | 'AverageValue'
}

/** No change for a value within a tenth of the threshold. */
const TOLERANCE = 0.1
/** It doubles at most, every 15 s; it halves at most, every 30 s, to no less than the most wanted in the last minute. */
const UP = { factor: 2, everyMs: 15_000 }
const DOWN = { factor: 0.5, everyMs: 30_000, calmMs: 60_000 }

export interface Scaler {
  /** How many there should be now. @param value what is measured; @param count how many there are */
  decide(atMs: number, value: number, count: number): number
}

export function createScaler({ min, max, threshold, metricType }: ScalingRule): Scaler {
  const wanted: { atMs: number; count: number }[] = []
  let upAtMs = Number.NEGATIVE_INFINITY
  let downAtMs = Number.NEGATIVE_INFINITY
  return {
    decide(atMs, value, count) {
      const ratio = metricType === 'Value' ? value / threshold : value / (threshold * count)
      const raw = Math.abs(ratio - 1) <= TOLERANCE ? count : Math.ceil(count * ratio)
      const now = Math.min(max, Math.max(min, raw))
      wanted.push({ atMs, count: now })
      while ((wanted[0]?.atMs ?? atMs) < atMs - DOWN.calmMs) wanted.shift()
      if (now > count) {
        if (atMs - upAtMs < UP.everyMs) return count
        upAtMs = atMs
        return Math.min(now, count * UP.factor)
      }
      const calm = Math.max(...wanted.map((one) => one.count))
      if (calm >= count || atMs - downAtMs < DOWN.everyMs) return count
      downAtMs = atMs
      return Math.max(calm, Math.floor(count * DOWN.factor))
    },
  }
}
