#!/usr/bin/env node
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'

const bundle = fileURLToPath(new URL('../dist/bundle/start.js', import.meta.url))
if (existsSync(bundle)) createRequire(import.meta.url)(bundle)
else await import('../dist/cli/main.js')
