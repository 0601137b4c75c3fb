// Loaded before the start script (`node --import`): Node keeps the compiled modules of all that it loads after.
import { enableCompileCache } from 'node:module'
import { compileCacheDir } from './prepare.mjs'

enableCompileCache(compileCacheDir(process.env))
