/**
 * Returns a function that calls `make` once for each object, such as a context, and from then on returns the
 * same value for that object. The value is released together with the object.
 */
export function oncePer<Key extends object, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const values = new WeakMap<Key, Value>()
  return (key) => {
    const existing = values.get(key)
    if (existing !== undefined) return existing
    const value = make(key)
    values.set(key, value)
    return value
  }
}

/** Returns a function that calls `make` when it is first called, and from then on returns the same value. */
export function once<Value>(make: () => Value): () => Value {
  let value: { made: Value } | undefined
  return () => (value ??= { made: make() }).made
}
