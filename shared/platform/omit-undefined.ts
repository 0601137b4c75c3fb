/** Returns a copy of an object without the fields that are undefined. */
export const omitUndefined = <Fields extends object>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Fields]?: Exclude<Fields[Name], undefined>
  }

/** Returns the named fields of a record, without those that are undefined. */
export const pick = <Stored, Name extends keyof Stored>(record: Stored, ...names: Name[]) =>
  omitUndefined(Object.fromEntries(names.map((name) => [name, record[name]]))) as Pick<Stored, Name>
