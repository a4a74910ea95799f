// Functions of the compiler on nodes of the library's tree.
import type { ASTNode } from '@marcbachmann/cel-js'

/** The value of a literal text or number; undefined for any other node. */
export function literalOf(node: ASTNode): unknown {
  return node.op === 'value' && (typeof node.args !== 'object' || node.args === null) ? node.args : undefined
}

/** The names from a variable on, if all are written out: `args.list[0].id` is `['args', 'list', 0, 'id']`. */
export function pathOf(node: ASTNode): (string | number)[] | undefined {
  if (node.op === 'id') return [node.args]
  if (node.op !== '.' && node.op !== '[]') return undefined
  const [inner, key] = node.args
  const name = typeof key === 'string' ? key : literalOf(key)
  const before = pathOf(inner)
  if (before === undefined || (typeof name !== 'string' && typeof name !== 'bigint')) return undefined
  return [...before, typeof name === 'bigint' ? Number(name) : name]
}

const WORD = /^[A-Za-z_]\w*$/

export function writtenPath([root, ...names]: readonly (string | number)[]): string {
  return names.reduce<string>(
    (path, name) =>
      typeof name === 'number'
        ? `${path}[${name}]`
        : WORD.test(name)
          ? `${path}.${name}`
          : `${path}[${JSON.stringify(name)}]`,
    String(root),
  )
}

/** Whether the length of the list is stated in the policy: a literal list, or one of `vars`. */
export function isBounded(node: ASTNode): boolean {
  return node.op === 'list' || pathOf(node)?.[0] === 'vars'
}

export function countNodes(value: unknown): number {
  if (Array.isArray(value)) return value.reduce((sum: number, item: unknown) => sum + countNodes(item), 0)
  if (typeof value !== 'object' || value === null || !('op' in value) || !('args' in value)) return 0
  return 1 + countNodes(value.args)
}
