// Folders of tests, which are removed with what is in them.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ofEachTest } from './parts.js'

/** A directory on the disk of the checkout, as temporary files may lie in memory, of which `svc doctor` warns. */
export const onDisk: string = fileURLToPath(new URL('..', import.meta.url))

/** A folder to be declared with `using`. */
export class TemporaryDir implements Disposable {
  readonly path: string

  constructor(parent: string = tmpdir()) {
    this.path = mkdtempSync(join(parent, 'svc-test-'))
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true, maxRetries: 20 })
  }
}

/** A fresh folder for each test of the calling suite. */
export const temporaryDir = (): TemporaryDir => ofEachTest(() => new TemporaryDir())
