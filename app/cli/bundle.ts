// Tells whether the bundle was made from the packages that are installed. A plugin or library may be upgraded alone, and
// a checkout may be built without a new bundle.
import { existsSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** A package in the bundle; it is found from the folder of its owner. */
interface Part {
  readonly owner: string
  readonly name: string
  readonly version: string
}

/** @param root - The folder of this package. */
export function isCurrent(root: string): boolean {
  const list = join(root, 'dist/bundle/parts.json')
  const bundled = modified(list)
  if (bundled === undefined) return false
  const parts = JSON.parse(readFileSync(list, 'utf8')) as readonly Part[]
  const folders = new Map([['svc-sdk', root]])
  return (
    parts.every(({ owner, name, version }) => {
      const found = find(name, folders.get(owner) ?? root)
      if (found?.version !== version) return false
      folders.set(name, found.folder)
      return !isBuiltAfter(found.folder, bundled)
    }) && !isBuiltAfter(root, bundled)
  )
}

/** The package as Node finds it from a folder. */
function find(name: string, from: string): { folder: string; version: unknown } | undefined {
  for (let above = from; ; above = dirname(above)) {
    const folder = join(above, 'node_modules', name)
    const manifest = join(folder, 'package.json')
    if (existsSync(manifest)) {
      const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: unknown }
      return { folder: realpathSync.native(folder), version }
    }
    if (above === dirname(above)) return undefined
  }
}

/** Whether `tsc -b` has changed a package of a checkout since the time, in ms. */
function isBuiltAfter(folder: string, time: number): boolean {
  return (modified(join(folder, 'dist/tsconfig.tsbuildinfo')) ?? 0) > time
}

function modified(file: string): number | undefined {
  return statSync(file, { throwIfNoEntry: false })?.mtimeMs
}
