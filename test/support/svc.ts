// Where the `svc` command is, for tests that run it as a process.
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

export const svc = join(dirname(createRequire(import.meta.url).resolve('svc-sdk/package.json')), 'bin/svc.js')
