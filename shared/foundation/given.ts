/** The fields that are not undefined. */
export const given = <Fields extends object>(fields: Fields) =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as {
    [Name in keyof Fields]?: Exclude<Fields[Name], undefined>
  }

/** These fields of a record, without those that are undefined. */
export const pick = <Stored, Name extends keyof Stored>(record: Stored, ...names: Name[]) =>
  given(Object.fromEntries(names.map((name) => [name, record[name]]))) as Pick<Stored, Name>
