/**
 * Makes a function that calls `make` once for each object, such as a context, and from then on returns the
 * same value for it. The value is released together with the object.
 */
export function oncePer<Key extends object, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const made = new WeakMap<Key, Value>()
  return (key) => {
    const existing = made.get(key)
    if (existing !== undefined) return existing
    const value = make(key)
    made.set(key, value)
    return value
  }
}
