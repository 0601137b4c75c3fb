import { Schema } from 'mongoose'

/*
 * A stored record is described once: its fields as mongoose takes them, from which its type follows. Fields
 * are required unless they are under `maybe`.
 */

interface Field<T> {
  readonly type: unknown
  readonly required?: true
  /** For the type alone. */
  readonly holds?: T
}

type Needed<T> = Field<T> & { readonly required: true }
type ValueOf<F> = F extends Field<infer T> ? T : never

export type RecordOf<Fields> = {
  -readonly [Name in keyof Fields as Fields[Name] extends Needed<unknown> ? Name : never]: ValueOf<
    Fields[Name]
  >
} & {
  -readonly [Name in keyof Fields as Fields[Name] extends Needed<unknown> ? never : Name]?: ValueOf<
    Fields[Name]
  >
}

const needed = <T>(type: unknown) => ({ type, required: true }) as Needed<T>
// Without the default mongoose would read an absent list as an empty one.
const optional = <T>(type: unknown) => ({ type, default: undefined }) as Field<T>
const inner = (fields: object) => new Schema({ ...fields }, { _id: false, strict: 'throw', minimize: false })

export const text = needed<string>(String)
/** For mongoose a required text that is empty is missing. */
export const textOrEmpty = { ...optional<string>(String), default: '' } as Needed<string>
export const textOrNull = { ...optional<string | null>(String), default: null } as Needed<string | null>
export const textOf = <T extends string>() => needed<T>(String)
export const bytes = needed<Buffer>(Buffer)
export const number = needed<number>(Number)
export const flag = needed<boolean>(Boolean)
export const date = needed<Date>(Date)
/** A value that mongoose doesn't look into. */
export const opaque = <T>() => needed<T>(Schema.Types.Mixed)
export const nested = <Fields extends object>(fields: Fields) => needed<RecordOf<Fields>>(inner(fields))
export const list = <T>({ type }: Field<T>) => needed<T[]>([type])

export const maybe = {
  text: optional<string>(String),
  textOf: <T extends string>() => optional<T>(String),
  number: optional<number>(Number),
  /** Absent if it isn't so. */
  flag: optional<true>(Boolean),
  boolean: optional<boolean>(Boolean),
  date: optional<Date>(Date),
  opaque: <T>() => optional<T>(Schema.Types.Mixed),
  nested: <Fields extends object>(fields: Fields) => optional<RecordOf<Fields>>(inner(fields)),
  list: <T>({ type }: Field<T>) => optional<T[]>([type]),
}

/** The schema of a collection, which refuses every field that it doesn't name. */
export const schemaOf = <Stored>(collection: string, fields: object) =>
  new Schema({ ...fields }, { collection, strict: 'throw', versionKey: false }) as unknown as Schema<Stored>

/** A condition on a field: it is there. `none`: it isn't. */
export const some = { $exists: true } as const
export const none = { $exists: false } as const

/** Options of an index that has only the records that match the filter. */
export const only = <Filter extends object>(filter: Filter, name?: string, unique = false) => ({
  partialFilterExpression: filter,
  ...(name === undefined ? {} : { name }),
  ...(unique ? { unique } : {}),
})
