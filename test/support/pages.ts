// The pages of the documentation and their fenced blocks, for the tests that run what the pages show.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface Block {
  readonly page: string
  /** As the fence names it; empty if it names none. */
  readonly language: string
  readonly text: string
  /** Its first line, by which tables of the tests name it. */
  readonly start: string
}

export const root = fileURLToPath(new URL('../../../', import.meta.url))

const folders = [
  'docs',
  'docs/operations',
  'plugins',
  'examples',
  'app',
  'core',
  'control-plane',
  'bench',
].flatMap((folder) => [
  folder,
  ...(['plugins', 'examples'].includes(folder)
    ? readdirSync(join(root, folder)).map((name) => `${folder}/${name}`)
    : []),
])

/** Every page but the reference, which is generated, and the decisions. */
export const pages: readonly string[] = [
  'README.md',
  'CONTRIBUTING.md',
  ...folders.flatMap((folder) =>
    folder.startsWith('docs')
      ? readdirSync(join(root, folder)).flatMap((name) => (name.endsWith('.md') ? [`${folder}/${name}`] : []))
      : [`${folder}/README.md`],
  ),
].filter((page) => existsSync(join(root, page)))

export const textOf = (page: string): string => readFileSync(join(root, page), 'utf8')

export const blocks: readonly Block[] = pages.flatMap((page) =>
  [...textOf(page).matchAll(/^( *)```(\w*)\n(.*?)^ *```$/gms)].map(
    ([, indent = '', language = '', lines = '']) => {
      const text = lines.replaceAll(new RegExp(`^${indent}`, 'gm'), '')
      return { page, language, text, start: text.split('\n')[0] ?? '' }
    },
  ),
)

/** How tables of the tests name a block. */
export const nameOf = ({ page, start }: Block): string => `${page}: ${start}`
