/** Fields without those that are undefined: absent and undefined are not the same to a service, nor to TypeScript. */
type Given<T> = {
  [K in keyof T as undefined extends T[K] ? K : never]?: Exclude<T[K], undefined>
} & { [K in keyof T as undefined extends T[K] ? never : K]: T[K] }

/** Leaves out the fields that are undefined. */
export const given = <T extends object>(fields: T): Given<T> =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as Given<T>
