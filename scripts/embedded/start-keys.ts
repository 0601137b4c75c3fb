import fs from 'node:fs'
import path from 'node:path'
import { defaultMemoryFile, ensureSealKey } from '../../shared/ledger/seal-key.ts'
import { memoryFileOf } from '../../shared/ledger/seal-memory.ts'
import { requireKeys } from '../../shared/operation/require-keys.ts'
import { readConfig, type Config } from '../../shared/platform/config.ts'
import { assertPrivate } from '../../shared/platform/private-file.ts'

/**
 * Makes the seal key and its memory in DATA_DIR unless the settings name a key, and checks all keys. The workers
 * check them too; here it is reported before anything is started.
 *
 * @returns the files of the key that the network makes, and of its memory
 * @throws ConfigError or StartError with a sentence for the operator
 */
export function prepareKeys(env: NodeJS.ProcessEnv): { sealKeyFile: string; sealMemoryFile: string } {
  const config = readConfig(env, 'start')
  const sealKeyFile = path.join(config.dataDir, 'seal-key')
  const sealMemoryFile = findSealMemory(config)
  if (config.secrets.sealKeyFile === undefined) ensureSealKey(sealKeyFile, sealMemoryFile)
  assertPrivate('SEAL_KEY_FILE', config.secrets.sealKeyFile ?? sealKeyFile)
  requireKeys(config)
  return { sealKeyFile, sealMemoryFile }
}

/**
 * The path of the seal memory, the signer's record of what it has signed: the setting's if there is one;
 * beside the operator's own seal key if there is a memory, as keygen makes it; else in DATA_DIR. The file
 * need not exist: the signer reports it if it is missing.
 */
function findSealMemory({ secrets, dataDir }: Config): string {
  const ours = memoryFileOf({ secrets, dataDir })
  if (secrets.sealMemoryFile !== undefined || secrets.sealKeyFile === undefined || fs.existsSync(ours))
    return ours
  const beside = defaultMemoryFile(path.resolve(secrets.sealKeyFile))
  return fs.existsSync(beside) ? beside : ours
}
