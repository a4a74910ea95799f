// Reads a file that a command names.

import { readFile } from 'node:fs/promises'
import { reasonOf } from '@svc/core/json'
import { AuditError } from '../format/errors.js'

/** @param what names the content of the file. @throws {AuditError} `read_failed`. */
export async function readInput(path: string, what: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (cause) {
    throw new AuditError('read_failed', `cannot read the ${what} at ${path}: ${reasonOf(cause)}`, cause)
  }
}
