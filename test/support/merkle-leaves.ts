import { canonicalJson } from '../../shared/crypto/canonical-json.ts'
import { hashLeafTexts } from '../../shared/crypto/merkle.ts'

/** The leaves of entries: 32 bytes each, side by side. */
export const hashLeaves = (entries: readonly object[]): Buffer => hashLeafTexts(entries.map(canonicalJson))
