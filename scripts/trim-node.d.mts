export function trimNode(root: string): void
